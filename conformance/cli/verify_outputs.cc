// bdlm verify --outputs: judges outputs that a user's program has written for golden vectors.

#include "conformance/cli/verify_outputs.h"

#include <filesystem>
#include <iostream>
#include <optional>

#include "conformance/cli/command.h"
#include "conformance/golden/judge_outputs.h"
#include "conformance/report/table.h"
#include "conformance/report/write_report.h"

namespace bdlm {

int verify_outputs(const VerifyOutputsOptions& options) {
  OutputsOptions choice{options.outputs, options.ids, options.golden};
  const char* beside = "golden/v1";
  if (choice.golden.empty() && std::filesystem::exists(std::string(beside) + "/manifest.json")) {
    choice.golden = beside;
  }
  std::optional<ReportSink> json = open_report(options.json, std::cout);
  std::optional<ReportSink> junit = open_report(options.junit, std::cout);
  std::optional<ReportSink> lines = open_report(options.jsonl, std::cout);
  const bool to_stdout = is_standard_output(options.json) || is_standard_output(options.jsonl) ||
                         is_standard_output(options.junit);
  std::ostream& out = to_stdout ? std::cerr : std::cout;
  const std::vector<CaseResult> results = judge_outputs(choice);
  Table table(out, contract_columns(), 64, options.strict);
  table.head();
  for (const CaseResult& result : results) {
    if (result.verdict != Verdict::skipped) {
      table.row(result);
    }
    if (lines) {
      lines->write(json_line(result));
    }
  }
  table.foot(summarize(results));
  if (lines) {
    lines->close();
  }
  RunInfo info = run_info(1);
  info.contract = "of each vector";
  if (json) {
    json->write(json_report(info, results));
    json->close();
  }
  if (junit) {
    junit->write(junit_report(results, options.strict));
    junit->close();
  }
  return exit_status(results, options.strict);
}

}  // namespace bdlm
