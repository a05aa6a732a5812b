#pragma once
// The backward of attention on intervals of keys, from the merged outputs.

#include "optimized/cpu/attention_problem.h"

namespace bdlm::cpu {

/// dq of the problem and dk, dv of its key sets (bdlm_plugin.h, bdlm_attention_backward_args). With
/// at least as many KV heads as threads a unit of work is a KV head; with fewer, dQ goes by query
/// tiles and then dK, dV by key tiles, which costs 7 products instead of 5. Sums are taken in the
/// same order either way, so the bits do not depend on the number of threads.
void attention_backward(const AttentionProblem& problem);

}  // namespace bdlm::cpu
