#pragma once
// For tests of suites: right backends, and what a suite says of a wrong one.

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "conformance/mutants/plain_backend.h"
#include "conformance/suites/backend_suite.h"

namespace bdlm {

/// A plain backend under a built-in contract, with mistakes.
inline std::unique_ptr<Backend> plain(const std::string& contract, PlainFaults faults = {}) {
  return Backend::of(entries_of(
      "plain", std::make_unique<PlainBackend>(builtin_contract(contract), std::move(faults))));
}

/// The results that are no PASS or MARGINAL, as lines for a message.
inline std::string complaints(const std::vector<CaseResult>& results) {
  std::string out;
  for (const CaseResult& r : results) {
    if (r.verdict > Verdict::marginal) {
      out +=
          join("\n  ", r.tier, ' ', r.id, ' ', name(r.verdict), ' ', name(r.reason), ' ', r.detail);
    }
  }
  return out;
}

inline std::vector<CaseResult> run_all(const std::vector<BackendCase>& cases,
                                       const Backend& backend) {
  std::vector<CaseResult> out;
  for (const BackendCase& c : cases) {
    out.push_back(run_case(c, backend));
  }
  return out;
}

/// The first result that fails, or an empty one.
inline CaseResult first_failure(const std::vector<BackendCase>& cases, const Backend& backend) {
  for (const BackendCase& c : cases) {
    CaseResult result = run_case(c, backend);
    if (result.verdict >= Verdict::fail) {
      return result;
    }
  }
  return {};
}

}  // namespace bdlm
