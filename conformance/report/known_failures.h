#pragma once
// Failures that are known: a file that says of which case, why, and until when.

#include <map>
#include <string>

#include "conformance/report/report.h"
#include "reference/base/json_file.h"

namespace bdlm {

struct KnownFailure {
  std::string reason;
  /// The last day on which it is accepted, "2027-03-31", in UTC.
  std::string expires;
};

/// By case id.
using KnownFailures = std::map<std::string, KnownFailure>;

/// Reads
///
///     { "csbp-P4-L64-M8-s7": { "reason": "dK of the last chunk, see #12", "expires": "2027-03-31"
///     } }
///
/// Throws InputError, one line, for a case without exactly these two keys, an id with other
/// characters than ids have, a reason that is empty, and a date that is not a day of the calendar
/// in this form.
KnownFailures parse_known_failures(const JsonView& json);
/// The same from a file; FileError where it is not JSON, or has a key twice.
KnownFailures read_known_failures(const std::string& path);

/// Says in the result where it stands in the list on the day `today`: a case that is listed is
/// `expired` after its day, else `passed` where its verdict is PASS or MARGINAL, else `known`.
void mark_known(CaseResult& result, const KnownFailures& list, const std::string& today);

/// "2026-11-30", the day in UTC.
std::string today();

}  // namespace bdlm
