#pragma once
// The cases that judge a backend through its plug-in.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "conformance/plugin/backend.h"
#include "conformance/report/report.h"
#include "conformance/suites/selection.h"
#include "reference/layout/ownership.h"

namespace bdlm {

/// One case: its name, what it belongs to, and how to judge it.
struct BackendCase {
  std::string id;
  /// "T1", "T4" to "T7".
  std::string tier;
  /// Monolithic where a case has no scheme.
  Scheme scheme = Scheme::monolithic;
  int ranks = 1;
  /// Calls the backend and judges what comes back.
  std::function<CaseResult(const Backend&)> run;
};

/// The cases of the selection's level, cheapest tier first; what else the selection says may be
/// left to select_backend_cases. They are made without a backend, in no time.
std::vector<BackendCase> backend_cases(const Selection& selection);

/// The cases that the selection names. Throws InputError for a tier that is not one of these or a
/// broken glob, and when nothing is selected.
std::vector<BackendCase> select_backend_cases(const Selection& selection);

/// Runs a case. What it throws becomes a CRASH with the error's text, but for a BackendFailure,
/// which says what it means.
CaseResult run_case(const BackendCase& backend_case, const Backend& backend);

/// What a call comes to that left nothing to judge: FAIL guard where the backend did what it may
/// not, UNSUPPORTED, or CRASH where the entry returned an error. Nothing where it can be judged.
std::optional<CaseResult> unjudged(const std::string& entry, const CallStatus& status,
                                   const std::string& violation);

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
