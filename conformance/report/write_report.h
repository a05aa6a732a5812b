#pragma once
// Reports for programs: one JSON document, JSON lines, JUnit XML.

#include <fstream>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/report/report.h"
#include "reference/base/output_file.h"

namespace bdlm {

/// One JSON document, ending with a newline:
///
///     { "format": "bdlm-report-1", "commit", "device", "versions": {}, "contract", "seed",
///       "summary": { "pass": n, "marginal", "fail", "mistrusted", "unsupported", "skipped",
///                    "timeout", "crash" },
///       "cases": [ case, ... ] }
///
/// A case is `{ "id", "tier", "verdict": "PASS", "reason": "" }` and its figures by name, then,
/// where there are any, "seconds", "detail", "tensors", "known_failure" (`{ "state", "reason",
/// "expires" }`) and, for what is_failure holds under `strict`, "reproduce", the command that runs
/// just this case. Each of "tensors" is `{ "tensor",
/// "verdict", "reason" }` with its figures, then "detail". A number that is not finite is the
/// string "nan", "inf" or "-inf"; bytes that are not UTF-8 become U+FFFD. Throws LogicError for a
/// figure with the name of another member.
std::string json_report(const RunInfo& run, const std::vector<CaseResult>& results);

/// One case as above, on one line, with the newline.
std::string json_line(const CaseResult& result);

/// JUnit XML, one test case a case, its class the tier. What is_failure holds is an error for
/// TIMEOUT and CRASH and else a failure; the other UNSUPPORTED, SKIPPED and MISTRUSTED are skipped,
/// and MARGINAL is passed with a remark. What the list of known failures has is skipped, or where
/// it fails the run a failure. Characters that XML 1.0 cannot hold become U+FFFD.
std::string junit_report(const std::vector<CaseResult>& results, bool strict);

/// Where a report goes: a file, written beside and renamed by `close`, or for "-" the given stream,
/// which then carries nothing else. Errors are FileErrors.
class ReportSink {
 public:
  ReportSink(const std::string& path, std::ostream& standard_output);

  /// Appends. A stream is flushed, so that a reader sees every line as it comes.
  void write(std::string_view text);
  /// Without it a file does not appear.
  void close();

 private:
  std::ostream* stream_ = nullptr;
  std::unique_ptr<OutputFile> file_;
};

/// The sink of a report that was asked for, nothing for an empty path. To be opened before the
/// work, so that a path that cannot be written costs none.
std::optional<ReportSink> open_report(const std::string& path, std::ostream& standard_output);

/// "-", or the name under which the system gives the same.
bool is_standard_output(const std::string& path);

/// Throws InputError where two of the reports would go to one place. Empty paths are reports that
/// nobody asked for.
void check_report_paths(const std::vector<std::string>& paths);

}  // namespace bdlm
