#pragma once
// Reads a case that json_line or json_report has written.

#include <string>
#include <string_view>

#include "conformance/report/report.h"
#include "reference/base/json_file.h"

namespace bdlm {

/// One case. Members that are none of the report's own are figures; they come in the order of their
/// names, and "nan", "inf" and "-inf" are numbers. "reproduce" is not read. Throws InputError, one
/// line that names the key, where id, tier, verdict or reason is missing, a value is of another
/// type, or a verdict or reason does not exist.
CaseResult read_case(const JsonView& json);

/// The same from one line of JSON. FileError where it is not JSON, or has a key twice.
CaseResult read_case_line(std::string_view line, const std::string& source);

}  // namespace bdlm
