#pragma once
// Linear layers without bias. Matrices are contiguous; the weight is (out, in).

#include <cstdint>

namespace bdlm::cpu {

/// y (rows, out) = x (rows, in) w^T, w (out, in).
void linear_forward(int64_t rows, int64_t in, int64_t out, const float* x, const float* w,
                    float* y);
/// dx (rows, in) += dy w, dw (out, in) += dy^T x.
void linear_backward(int64_t rows, int64_t in, int64_t out, const float* x, const float* w,
                     const float* dy, float* dx, float* dw);

}  // namespace bdlm::cpu
