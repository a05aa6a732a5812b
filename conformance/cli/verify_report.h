#pragma once
// What becomes of the results of `bdlm verify`: tables, reports, the exit status.

#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "conformance/cli/verify_options.h"
#include "conformance/report/known_failures.h"
#include "conformance/report/table.h"
#include "conformance/report/write_report.h"

namespace bdlm {

class VerifyReport {
 public:
  /// Opens every report, so that a path that cannot be written costs no work, and reads the known
  /// failures.
  explicit VerifyReport(const VerifyOptions& options);

  /// Where tables go: standard output, or standard error where a report has that.
  std::ostream& out() const { return out_; }
  /// Before the first result: the columns of the table.
  void begin(std::vector<Column> columns, int64_t id_width);
  void take(CaseResult result, Scheme scheme);
  /// Closes all; returns the exit status.
  int finish(const RunInfo& run);

 private:
  /// What the cases of one tier and scheme came to.
  struct Group {
    Summary summary;
    double worst = 0;  // error over bound
    double seconds = 0;
  };
  void print_groups() const;
  void print_known() const;

  const VerifyOptions& options_;
  std::ostream& out_;
  std::optional<ReportSink> json_, junit_, lines_;
  KnownFailures known_;
  std::string today_;
  std::optional<Table> table_;
  std::map<std::string, Group> groups_;
  std::vector<CaseResult> results_;
};

/// Throws InputError: --list runs nothing, so it has nothing for reports.
void check_list_options(const VerifyOptions& options);
void list_case(const std::string& tier, const std::string& id);

/// Prints tier and id of each case, for --list. Throws InputError where a report is asked for.
template <class Case>
int list_cases(const VerifyOptions& options, const std::vector<Case>& cases) {
  check_list_options(options);
  for (const Case& c : cases) {
    list_case(c.tier, c.id);
  }
  return 0;
}

}  // namespace bdlm
