#include "conformance/suites/backend_case.h"

#include "conformance/suites/backend_failure.h"
#include "conformance/suites/selection.h"
#include "reference/base/error.h"

namespace bdlm {

CaseResult run_case(const BackendCase& backend_case, const Backend& backend) {
  return judged(backend_case.id, backend_case.tier, [&] {
    try {
      return backend_case.run(backend);
    } catch (const BackendFailure& failure) {
      return failure.result();
    }
  });
}

void require_call(const char* entry, const CallStatus& status, const std::string& violation) {
  if (std::optional<CaseResult> result = unjudged(entry, status, violation)) {
    throw BackendFailure(std::move(*result));
  }
}

std::optional<CaseResult> unjudged(const std::string& entry, const CallStatus& status,
                                   const std::string& violation) {
  CaseResult result;
  if (!violation.empty()) {
    result.verdict = Verdict::fail;
    result.reason = Reason::guard;
    result.detail = join(entry, ": ", violation);
    return result;
  }
  if (status.ok()) {
    return std::nullopt;
  }
  const std::string message = status.message.empty() ? "" : ": " + status.message;
  if (status.code == BDLM_UNSUPPORTED) {
    result.verdict = Verdict::unsupported;
    result.reason = status.null_entry ? Reason::null_entry : Reason::none;
    result.detail = status.null_entry ? "the entry " + entry + " is NULL"
                                      : entry + " returned BDLM_UNSUPPORTED" + message;
    return result;
  }
  result.verdict = Verdict::crash;
  result.detail = join(entry, " returned ", name(status.code), message);
  return result;
}

}  // namespace bdlm
