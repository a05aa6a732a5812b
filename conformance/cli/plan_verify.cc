#include "conformance/cli/plan_verify.h"

#include <iostream>
#include <optional>

#include "conformance/cli/command.h"
#include "conformance/cli/options.h"
#include "conformance/doors/judge_plan.h"
#include "conformance/report/write_report.h"
#include "reference/base/output_file.h"
#include "reference/base/text.h"
#include "reference/schedule/plan_builder.h"

namespace bdlm {
namespace {

struct PlanVerifyOptions {
  std::string file;
  std::string json;
};

CaseResult case_of(const std::string& id, const PlanVerdict& verdict) {
  CaseResult result;
  result.id = id;
  result.tier = "plan verify";
  int64_t pairs = 0;
  int64_t forward = 0;
  int64_t backward = 0;
  for (size_t r = 0; r < verdict.pairs.size(); ++r) {
    pairs += verdict.pairs[r];
    forward += verdict.sent[r].forward;
    backward += verdict.sent[r].backward;
  }
  result.figures = {{"ranks", static_cast<int64_t>(verdict.pairs.size())},
                    {"pairs", pairs},
                    {"imbalance", verdict.imbalance},
                    {"bytes_forward", forward},
                    {"bytes_backward", backward},
                    {"replicated_clean_rows", verdict.replicated_clean_rows},
                    {"violations", verdict.violations.count()}};
  if (!verdict.violations.empty()) {
    result.verdict = Verdict::fail;
    result.reason = Reason::coverage;
    result.detail = verdict.violations.texts().front();
  } else if (pairs == 0) {
    result.verdict = Verdict::mistrusted;
    result.detail = "the mask allows no pair at all";
  }
  return result;
}

int verify(const PlanVerifyOptions& o) {
  check_report_paths({o.json});
  std::optional<ReportSink> json;
  if (!o.json.empty()) {
    json.emplace(o.json, std::cout);
  }
  const PlanFile file = read_plan(o.file);
  const PlanVerdict verdict = judge_plan(file);
  const CaseResult result = case_of(printable(o.file, 400), verdict);
  std::ostream& out = is_standard_output(o.json) ? std::cerr : std::cout;
  out << printable(o.file, 400) << ": " << file.plans.size() << " ranks, " << file.sequence.length()
      << " tokens in " << file.sequence.blocks() << " blocks, " << name(file.rule.clean)
      << " clean rows, window " << file.rule.window << "\n\n";
  char line[160];
  std::snprintf(line, sizeof line, "%6s %14s %16s %16s\n", "rank", "pairs", "bytes forward",
                "bytes backward");
  out << line;
  for (size_t r = 0; r < file.plans.size() && r < 16; ++r) {
    std::snprintf(line, sizeof line, "%6zu %14lld %16lld %16lld\n", r,
                  static_cast<long long>(verdict.pairs[r]),
                  static_cast<long long>(verdict.sent[r].forward),
                  static_cast<long long>(verdict.sent[r].backward));
    out << line;
  }
  if (file.plans.size() > 16) {
    out << "and " << file.plans.size() - 16 << " more ranks\n";
  }
  out << "pairs: the largest over the mean is " << verdict.imbalance << '\n';
  if (verdict.replicated_clean_rows > 0) {
    out << verdict.replicated_clean_rows << " clean rows are computed on more than one rank\n";
  }
  for (const std::string& text : verdict.violations.texts()) {
    out << "wrong: " << text << '\n';
  }
  if (verdict.violations.count() > static_cast<int64_t>(verdict.violations.texts().size())) {
    out << "wrong: and "
        << verdict.violations.count() - static_cast<int64_t>(verdict.violations.texts().size())
        << " more\n";
  }
  out << name(result.verdict)
      << (result.verdict == Verdict::pass
              ? ": every visible pair once, forward and backward; all rows arrive, all gradients "
                "return"
              : "")
      << '\n';
  if (json) {
    json->write(json_report(run_info(0), {result}));
    json->close();
  }
  return exit_status({result}, false);
}

}  // namespace

void add_plan_verify(CLI::App& plan_command, int& status) {
  auto options = std::make_shared<PlanVerifyOptions>();
  CLI::App* command = plan_command.add_subcommand(
      "verify", "Judge rank programs that another framework has dumped");
  command->add_option("FILE", options->file, "JSON as conformance/doors/plan_schema.json has it")
      ->required();
  add_text(*command, "--json", options->json, "Write one JSON document; - is standard output");
  command->callback([options, &status] { status = verify(*options); });
}

void dump_plan(const std::string& path, const Sequence& sequence, const LayerRule& rule,
               const Ownership& ownership, int64_t kv_row_bytes, int64_t gradient_row_bytes) {
  PlanFile file;
  file.sequence = sequence;
  file.rule = rule;
  file.kv_row_bytes = kv_row_bytes;
  file.gradient_row_bytes = gradient_row_bytes;
  file.plans = build_plans(sequence, ownership, rule);
  file.declared.resize(file.plans.size());
  write_file(path, write_plan(file));
}

}  // namespace bdlm
