#pragma once
// What cross-entropy of a linear head should give, and how far from it a backend may be.

#include "conformance/judge/bounds.h"
#include "conformance/plugin/calls.h"

namespace bdlm {

/// By element; the arrays are stream 0's, stream 1 is empty.
struct ExpectedCrossEntropy {
  ExpectedTensor row_loss;  // (R)
  ExpectedTensor d_hidden;  // (R, E)
  ExpectedTensor d_head;    // (V, E)
};

/// Values by reference/math/cross_entropy.h in double. Bounds, with u the accumulation's, c(n) =
/// min(n, 8 sqrt(n)), S = sum |h w|, y the capped logit, t = y / cap, and U = |upstream weight|:
///
///   e_x = u (c(E) + 1) S,  e_y = e_x + 8 u |y| [softcap]
///   e_z = sum p e_y + u (min(V, 4 sqrt(V)) + |z| + 4)
///   H_loss = |weight| (e_z + e_y of the label + u (|z| + |y|)) + (2 u + u_lse) |loss|
///   r = exp(e_y + e_z + u (|y - z| + 4)) - 1
///   H_g = U (p r slope + |p - 1_label| (2 |t| e_y / cap + 8 u)) + 6 u |g|,  + u_dS (|g| + that)
///   H_dhidden = sum_c (H_g + c(V) u |g|) |w| + u_gradient (|dh| + that)
///   H_dhead = sum_i (H_g + c(R) u |g|) |h| + u |dw|
///
/// The gradient of a logit is to the head what dS is to K: it may be rounded to the contract's "ds"
/// before it multiplies. Ignored rows and excluded classes have H = 0.
ExpectedCrossEntropy expected_cross_entropy(const CrossEntropyCall& call, const Contract& contract);

}  // namespace bdlm
