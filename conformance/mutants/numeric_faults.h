#pragma once
// Mistakes of a low-precision attention pipeline, made in the emulated one (judge/emulated.h).

#include <functional>
#include <string>
#include <vector>

#include "conformance/judge/attention_arrays.h"
#include "conformance/judge/contract.h"
#include "conformance/judge/decomposition.h"
#include "conformance/report/verdict.h"

namespace bdlm {

/// A mistake in what runs under `contract`, and what the judge says of which output.
struct NumericFault {
  std::string what;
  std::string contract;
  std::string tensor;
  std::vector<Reason> reasons;
  std::function<AttentionOutputs(const AttentionProblem<double>&, const Decomposition&, Contract)>
      run;
};

/// The right pipeline under a contract, as a fault called "none".
NumericFault no_fault(const std::string& contract);

std::vector<NumericFault> numeric_faults();

}  // namespace bdlm
