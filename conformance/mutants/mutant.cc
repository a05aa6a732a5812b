#include "conformance/mutants/mutant.h"

namespace bdlm {

std::vector<Mutant> all_mutants() {
  std::vector<Mutant> all;
  for (const auto& some : {mask_mutants(), transfer_mutants(), engine_mutants(), step_mutants()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace bdlm
