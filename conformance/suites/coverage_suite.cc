// T0: does a schedule visit every allowed pair exactly once, and is it balanced?

#include "conformance/suites/coverage.h"
#include "conformance/suites/suite.h"
#include "reference/schedule/plan_builder.h"

namespace bdlm {
namespace {

CaseResult judge(const LayoutCase& c, const Subject& subject) {
  const bool clean_loss = c.rule.clean == CleanRule::token_causal;
  const Sequence& sequence = c.shape.sequence;
  const Ownership ownership = c.ownership(clean_loss);
  const PlanBuilder builder(sequence, ownership, c.rule);
  std::vector<RankPlan> changed;
  if (subject.plans) {
    changed = plans_of(subject, {sequence, c.rule, ownership});
  }
  const CoverageReport report = check_coverage(sequence, c.rule, ownership, [&](int r) {
    return changed.empty() ? builder.rank(r) : changed[r];
  });
  CaseResult result;
  int64_t pairs = 0;
  for (const int64_t n : report.pairs) {
    pairs += n;
  }
  result.figures = {{"pairs", pairs},
                    {"imbalance", report.imbalance()},
                    {"violations", report.violations.count()}};
  if (!report.violations.empty()) {
    result.verdict = Verdict::fail;
    result.reason = Reason::coverage;
    result.detail = report.violations.texts().front();
  } else if (pairs == 0) {
    // Nothing to visit: a schedule that does nothing would pass.
    result.verdict = Verdict::mistrusted;
    result.detail = "the mask allows no pair at all";
  }
  return result;
}

}  // namespace

std::vector<SuiteCase> coverage_cases(const Selection& selection) {
  std::vector<LayoutCase> layouts = selected_layouts(selection);
  // A million tokens on a thousand ranks.
  const Shape large{Sequence::uniform(1 << 20, 256), 256, "", ""};
  for (const Scheme scheme : {Scheme::cp, Scheme::bp, Scheme::csbp}) {
    layouts.push_back({large, {CleanRule::block_causal, 0}, scheme, 1024, {}});
    layouts.push_back({large, {CleanRule::token_causal, 1024}, scheme, 1024, {}});
  }
  std::vector<SuiteCase> out;
  for (const LayoutCase& c : layouts) {
    out.push_back({c.id().str(), "T0", c.scheme, c.ranks,
                   [c](const Subject& subject) { return judge(c, subject); }});
  }
  return out;
}

}  // namespace bdlm
