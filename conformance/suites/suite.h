#pragma once
// The cases of the suite, and the driver that runs a choice of them.

#include <functional>
#include <string>
#include <vector>

#include "conformance/report/report.h"
#include "conformance/suites/layout_case.h"
#include "conformance/suites/selection.h"
#include "conformance/suites/subject.h"

namespace bdlm {

/// One case: its name, what it belongs to, and how to judge it.
struct SuiteCase {
  std::string id;
  /// "T0", "T2", "T3".
  std::string tier;
  Scheme scheme = Scheme::monolithic;
  int ranks = 1;
  /// Judges. May throw: then the case is a CRASH.
  std::function<CaseResult(const Subject&)> run;
  /// Whether it judges a training step, not only plans or an attention layer.
  bool whole_step = false;
};

/// T0: plans as integers.
std::vector<SuiteCase> coverage_cases(const Selection& selection);
/// T2: the schemes in rational arithmetic.
std::vector<SuiteCase> exact_cases(const Selection& selection);
/// Judges one layout as T2 does.
CaseResult judge_exact(const LayoutCase& layout, const Subject& subject = {});
/// T3: the schemes in double, one attention layer.
std::vector<SuiteCase> double_cases(const Selection& selection);
/// T3: the schemes in double, whole training steps.
std::vector<SuiteCase> step_cases(const Selection& selection);

/// The selected cases of all tiers, cheapest tier first. Throws InputError for a tier or a broken
/// glob, and when nothing is selected.
std::vector<SuiteCase> select_cases(const Selection& selection);

/// Runs a case. What it throws becomes a CRASH with the error's text.
CaseResult run_case(const SuiteCase& suite_case, const Subject& subject = {});

}  // namespace bdlm
