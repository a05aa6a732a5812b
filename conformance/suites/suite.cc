#include "conformance/suites/suite.h"

#include "reference/base/error.h"

namespace bdlm {

std::vector<SuiteCase> select_cases(const Selection& selection) {
  check_tiers(selection, {"T0", "T2", "T3"});
  std::vector<SuiteCase> out;
  std::string example;
  const auto add = [&](const char* tier, auto make) {
    if (!chosen<std::string>(selection.tiers, tier)) {
      return;
    }
    for (SuiteCase& c : make(selection)) {
      example = c.id;
      if (chosen(selection.schemes, c.scheme) && chosen(selection.ranks, c.ranks) &&
          glob_match(selection.ids, c.id)) {
        out.push_back(std::move(c));
      }
    }
  };
  add("T0", coverage_cases);
  add("T2", exact_cases);
  add("T3", double_cases);
  add("T3", step_cases);
  require(!out.empty(), nothing_selected(selection, example));
  return out;
}

CaseResult run_case(const SuiteCase& suite_case, const Subject& subject) {
  return judged(suite_case.id, suite_case.tier, [&] { return suite_case.run(subject); });
}

}  // namespace bdlm
