#pragma once
// A low-precision backend on the CPU: rounds where a contract says, sums in its accumulation's
// format. With mistakes on request, to show that the judge sees them.

#include <optional>

#include "conformance/judge/attention_arrays.h"
#include "conformance/judge/contract.h"
#include "conformance/judge/decomposition.h"

namespace bdlm {

/// A query row and a key that it misses in every head, forward and backward.
struct MissingKey {
  Stream stream = Stream::clean;
  int64_t row = 0;
  Stream key_stream = Stream::clean;
  int64_t key = 0;
};

/// Mistakes; none by default. A format below the contract's is no switch: emulate another contract
/// than the one that is judged.
struct EmulatedFaults {
  /// Low-precision sites cut off instead of rounding to nearest.
  Rounding rounding = Rounding::nearest_even;
  /// Two partial outputs are averaged instead of weighted.
  bool merge_by_average = false;
  /// The weights of a merge come from LSEs that were rounded to bf16.
  bool merge_by_rounded_lse = false;
  std::optional<MissingKey> missing_key;
  /// What each output is multiplied by before it is written.
  double o_gain = 1, dq_gain = 1, dk_gain = 1, dv_gain = 1;
};

/// Forward, and backward unless d_o is empty, as the ranks of the decomposition compute them: every
/// part of a row by itself, merged in order; gradients summed by rank, then over ranks.
AttentionOutputs emulate(const AttentionProblem<double>& problem,
                         const Decomposition& decomposition, const Contract& contract,
                         const EmulatedFaults& faults = {});

/// Attention as a chain of bf16 operations, each of which rounds its result: scores, softmax,
/// product, and the same backward. It is what kernels are usually compared with.
AttentionOutputs naive_bf16(const AttentionProblem<double>& problem,
                            const Decomposition& decomposition);

}  // namespace bdlm
