#pragma once
// A call of a backend that gave no result to judge.

#include <string>

#include "conformance/plugin/backend.h"
#include "conformance/report/report.h"
#include "reference/base/error.h"

namespace bdlm {

/// An entry that is missing, refused, returned an error, or wrote what it may not; holds what the
/// case comes to.
class BackendFailure : public Error {
 public:
  explicit BackendFailure(CaseResult result) : Error(result.detail), result_(std::move(result)) {}
  const CaseResult& result() const { return result_; }

 private:
  CaseResult result_;
};

/// Throws BackendFailure unless the call succeeded and kept to its outputs.
void require_call(const char* entry, const CallStatus& status, const std::string& violation);

}  // namespace bdlm
