#pragma once
// Attention of query rows on intervals of keys, merged into a state.

#include "optimized/cpu/attention_problem.h"

namespace bdlm::cpu {

/// o and lse of the problem (bdlm_plugin.h, bdlm_attention_args). A unit of work is a query tile of
/// one KV head, which walks over the key tiles that its rows see; the bits do not depend on the
/// number of threads.
void attention_forward(const AttentionProblem& problem);

}  // namespace bdlm::cpu
