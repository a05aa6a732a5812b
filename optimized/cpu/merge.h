#pragma once
// The merge of two partial attention states.

#include <cstdint>

#include "conformance/plugin/bdlm_plugin.h"
#include "optimized/cpu/attention_problem.h"

namespace bdlm::cpu {

/// Merges (o1, z1) and (o2, z2), normalised outputs (d) and log-sum-exps of one row over disjoint
/// keys, into (o, z), which may be either of the two. With the sides ordered so that z1 >= z2:
///
///   w = exp(z2 - z1),  l = 1 + w,  o = (1/l) o1 + (w/l) o2,  z = z1 + log1p(w)
///
/// The scalars are computed in double and rounded once. (0, -inf) is the identity, bit for bit, and
/// a side's o is not read where its z is -inf. Commutative bit for bit. A z of NaN or +inf on
/// either side gives NaN.
void merge_row(int64_t d, const float* o1, float z1, const float* o2, float z2, float* o, float* z);

/// The plug-in's entry. Throws InputError where tensors do not fit together.
void merge(const bdlm_merge_args& args);

}  // namespace bdlm::cpu
