#pragma once
// Data in the format in which a backend reads it.

#include "conformance/judge/contract.h"
#include "conformance/judge/decomposition.h"
#include "conformance/suites/attention_data.h"

namespace bdlm {

/// attention_data for a decomposition's sequence, rounded to the contract's inputs.
inline AttentionProblem<double> rounded_data(const AttentionShape& shape,
                                             const Decomposition& decomposition, DataKind kind,
                                             uint64_t seed, const Contract& contract) {
  AttentionProblem<double> p =
      attention_data<double>(shape, decomposition.sequence.length(), kind, seed);
  for (auto* tensor : {&p.q, &p.k, &p.v, &p.d_o}) {
    for (auto& stream : *tensor) {
      for (double& x : stream) {
        x = round_to(x, contract.input);
      }
    }
  }
  return p;
}

}  // namespace bdlm
