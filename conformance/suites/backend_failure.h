#pragma once
// A call of a backend that gave no result to judge, and what a case makes of it.

#include <functional>
#include <string>

#include "conformance/plugin/backend.h"
#include "conformance/report/report.h"
#include "reference/base/error.h"

namespace bdlm {

/// An entry that is missing, refused, returned an error, or wrote what it may not.
class BackendFailure : public Error {
 public:
  BackendFailure(Verdict verdict, Reason reason, const std::string& what)
      : Error(what), verdict_(verdict), reason_(reason) {}
  Verdict verdict() const { return verdict_; }
  Reason reason() const { return reason_; }

 private:
  Verdict verdict_;
  Reason reason_;
};

/// Throws BackendFailure unless the call succeeded and kept to its outputs: UNSUPPORTED where the
/// entry is NULL or refused, CRASH where it returned an error, FAIL (guard) for a violation.
inline void require_call(const char* entry, const CallStatus& status,
                         const std::string& violation) {
  if (!violation.empty()) {
    throw BackendFailure(Verdict::fail, Reason::guard, join(entry, ": ", violation));
  }
  if (status.ok()) {
    return;
  }
  if (status.code == BDLM_UNSUPPORTED) {
    throw BackendFailure(
        Verdict::unsupported, status.null_entry ? Reason::null_entry : Reason::none,
        status.null_entry ? join(entry, " is NULL")
                          : join(entry, " is not implemented for this case: ", status.message));
  }
  throw BackendFailure(Verdict::crash, Reason::none,
                       join(entry, " returned ", name(status.code), ": ", status.message));
}

/// The case's result, or what a BackendFailure in it means.
inline CaseResult judged(const std::function<CaseResult()>& run) {
  try {
    return run();
  } catch (const BackendFailure& failure) {
    CaseResult result;
    result.verdict = failure.verdict();
    result.reason = failure.reason();
    result.detail = failure.what();
    return result;
  }
}

}  // namespace bdlm
