#pragma once
// RMSNorm, with epsilon inside the root.

#include <cstdint>

namespace bdlm::cpu {

/// y = w x r with r = (mean(x^2) + epsilon)^(-1/2); x and y (rows, features), w (features). The
/// scalars are computed in double.
void rms_norm_forward(int64_t rows, int64_t features, double epsilon, const float* x,
                      const float* w, float* y);
/// dx += r (w dy) - x (r^3 / features) sum(w dy x), dw += sum over rows of dy x r.
void rms_norm_backward(int64_t rows, int64_t features, double epsilon, const float* x,
                       const float* w, const float* dy, float* dx, float* dw);

}  // namespace bdlm::cpu
