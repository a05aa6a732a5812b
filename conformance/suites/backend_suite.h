#pragma once
// The cases that judge a backend through its plug-in.

#include <vector>

#include "conformance/suites/backend_case.h"
#include "conformance/suites/selection.h"

namespace bdlm {

/// The cases of the selection's level, cheapest tier first; what else the selection says may be
/// left to select_backend_cases. They are made without a backend, in no time.
std::vector<BackendCase> backend_cases(const Selection& selection);

/// The cases that the selection names. Throws InputError for a tier that is not one of these or a
/// broken glob, and when nothing is selected.
std::vector<BackendCase> select_backend_cases(const Selection& selection);

// All cases of a kind at a level, in the chosen schemes and ranks.

/// T1: multiplicities of pairs (probe.h).
std::vector<BackendCase> probe_cases(const Selection& selection);
/// T4: attention against the rounding model.
std::vector<BackendCase> statistical_cases(const Selection& selection);
/// T4: merges of partial states.
std::vector<BackendCase> merge_cases(const Selection& selection);
/// T4: cross-entropy of a linear head.
std::vector<BackendCase> cross_entropy_cases(const Selection& selection);
/// T5: exact symmetries.
std::vector<BackendCase> metamorphic_cases(const Selection& selection);
/// T6: bits that may not depend on how a call is made, memory that may not be touched.
std::vector<BackendCase> hygiene_cases(const Selection& selection);
/// T4 and T7: the training step of a rank.
std::vector<BackendCase> step_backend_cases(const Selection& selection);

}  // namespace bdlm
