#include "conformance/mutants/backend_mutation.h"

#include "conformance/suites/backend_suite.h"

namespace bdlm {

MutantResult judge_backend_mutant(const BackendMutant& mutant, const bdlm_backend& right,
                                  bool every_tier) {
  MutantResult out{mutant.name, mutant.kind, mutant.what, {}, 0};
  const std::unique_ptr<Backend> wrong = Backend::of(mutant.make(right));
  const std::vector<std::string> tiers =
      every_tier ? std::vector<std::string>{"T1", "T4", "T5", "T6", "T7"}
                 : std::vector<std::string>{mutant.tier};
  for (const std::string& tier : tiers) {
    Selection selection;
    selection.tiers = {tier};
    selection.ids = every_tier ? "*" : mutant.cases;
    for (const BackendCase& c : select_backend_cases(selection)) {
      const CaseResult result = run_case(c, *wrong);
      ++out.cases;
      if (result.verdict >= Verdict::fail) {
        out.kills.push_back({tier, result.id, result.verdict, result.reason, result.detail});
        break;
      }
    }
  }
  return out;
}

}  // namespace bdlm
