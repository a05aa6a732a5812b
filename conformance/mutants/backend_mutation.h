#pragma once
// The tiers of backends over mutants behind the plug-in interface.

#include "conformance/mutants/backend_mutants.h"
#include "conformance/mutants/mutation.h"

namespace bdlm {

/// Makes the mutant around a right backend of this host and runs the cases of the tier that has to
/// kill it until one fails; with `every_tier` all quick cases of every tier, in each of them until
/// one fails.
MutantResult judge_backend_mutant(const BackendMutant& mutant, const bdlm_backend& right,
                                  bool every_tier);

}  // namespace bdlm
