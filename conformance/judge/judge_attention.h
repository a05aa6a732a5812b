#pragma once
// The verdict on all outputs of one attention layer.

#include <cstddef>
#include <optional>
#include <vector>

#include "conformance/judge/judge_tensor.h"

namespace bdlm {

/// Where an output stands among those expected and those that came out.
struct AttentionOutput {
  OutputKind kind;
  ExpectedTensor ExpectedAttention::*expected;
  ByStream<double> AttentionOutputs::*got;
};
/// In the order of OutputKind: the two of the forward, the three of the backward.
inline constexpr AttentionOutput attention_outputs[] = {
    {OutputKind::o, &ExpectedAttention::o, &AttentionOutputs::o},
    {OutputKind::lse, &ExpectedAttention::lse, &AttentionOutputs::lse},
    {OutputKind::dq, &ExpectedAttention::dq, &AttentionOutputs::dq},
    {OutputKind::dk, &ExpectedAttention::dk, &AttentionOutputs::dk},
    {OutputKind::dv, &ExpectedAttention::dv, &AttentionOutputs::dv}};
inline constexpr const AttentionOutput& output_of(OutputKind kind) {
  return attention_outputs[static_cast<size_t>(kind)];
}

/// One query row, head and key.
struct Pair {
  Stream stream = Stream::clean;
  int64_t row = 0;
  int64_t head = 0;
  Stream key_stream = Stream::clean;
  int64_t key = 0;
};

/// A pair of average weight in one of the rows that see most keys: the smallest probability of the
/// row that is at least 1/n. Nothing where no row sees a key, or the row sees more than
/// limits::vacuous_keys.
std::optional<Pair> pair_to_drop(const AttentionProblem<double>& problem,
                                 const Decomposition& decomposition,
                                 const ExpectedAttention& expected);

/// The right answer but for one pair that the forward, or the backward, leaves out.
AttentionOutputs without_pair(const AttentionProblem<double>& problem,
                              const ExpectedAttention& expected, const Pair& pair);

/// O and LSE, and where `expected` has gradients dQ, dK and dV, by judge_tensor. Where all of O and
/// LSE, or all of the gradients, pass and would pass without one pair as well, O, or dQ, is
/// MISTRUSTED; the figure dropped_pair of O and dQ says "caught", "missed" or, where no row sees 1
/// to 4096 keys, "untested". `gaussian`: the inputs are Gaussian, so that the noise of the
/// tensors is predicted, too.
std::vector<TensorResult> judge_attention(const AttentionProblem<double>& problem,
                                          const Decomposition& decomposition,
                                          const ExpectedAttention& expected,
                                          const AttentionOutputs& got, bool gaussian);

}  // namespace bdlm
