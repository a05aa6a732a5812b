#pragma once
// The cases that judge a backend through the plug-in interface: T1, T4 to T7.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "conformance/plugin/backend.h"
#include "conformance/report/report.h"
#include "conformance/suites/suite.h"

namespace bdlm {

struct BackendCase {
  std::string id;
  /// "T1", "T4", "T5", "T6", "T7".
  std::string tier;
  Scheme scheme = Scheme::monolithic;
  int ranks = 1;
  /// Calls the backend and judges what comes back. May throw: then the case is a CRASH.
  std::function<CaseResult(const Backend&)> run;
};

/// The cases of the selection's level, cheapest tier first; what else the selection says may be
/// left to select_backend_cases. They are made without a backend, in no time.
std::vector<BackendCase> backend_cases(const Selection& selection);

/// The cases that the selection names. Throws InputError for a tier that is not one of these or a
/// broken glob, and when nothing is selected.
std::vector<BackendCase> select_backend_cases(const Selection& selection);

/// Runs a case. What it throws becomes a CRASH with the error's text.
CaseResult run_case(const BackendCase& backend_case, const Backend& backend);

/// What a call comes to that left nothing to judge: FAIL guard where the backend did what it may
/// not, UNSUPPORTED, or CRASH where the entry returned an error. Nothing where it can be judged.
std::optional<CaseResult> unjudged(const std::string& entry, const CallStatus& status,
                                   const std::string& violation);

}  // namespace bdlm
