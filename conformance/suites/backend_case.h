#pragma once
// A case that judges a backend through its plug-in, and what became of it.

#include <functional>
#include <optional>
#include <string>

#include "conformance/plugin/backend.h"
#include "conformance/report/report.h"
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

/// Runs a case. What it throws becomes a CRASH with the error's text, but for a BackendFailure,
/// which says what it means.
CaseResult run_case(const BackendCase& backend_case, const Backend& backend);

/// What a call comes to that left nothing to judge: FAIL guard where the backend did what it may
/// not, UNSUPPORTED, or CRASH where the entry returned an error. Nothing where it can be judged.
std::optional<CaseResult> unjudged(const std::string& entry, const CallStatus& status,
                                   const std::string& violation);

}  // namespace bdlm
