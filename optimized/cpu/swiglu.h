#pragma once
// SwiGLU: the gated unit of the feed-forward layer.

#include <cstdint>

namespace bdlm::cpu {

/// y = silu(gate) * up, silu(x) = x / (1 + exp(-x)); n elements each.
void swiglu_forward(int64_t n, const float* gate, const float* up, float* y);
/// d_gate and d_up are overwritten: silu'(x) = s + x s (1 - s), s = 1 / (1 + exp(-x)).
void swiglu_backward(int64_t n, const float* gate, const float* up, const float* dy, float* d_gate,
                     float* d_up);

}  // namespace bdlm::cpu
