#pragma once
// The parts of a transformer layer that work on each row by itself: forward, and the hand-written
// backward. Rows are contiguous floats.

#include <cstdint>
#include <span>
#include <vector>

#include "optimized/cpu/aligned.h"

namespace bdlm::cpu {

/// y (rows, out) = x (rows, in) w^T, w (out, in).
void linear_forward(int64_t rows, int64_t in, int64_t out, const float* x, const float* w,
                    float* y);
/// dx (rows, in) += dy w, dw (out, in) += dy^T x.
void linear_backward(int64_t rows, int64_t in, int64_t out, const float* x, const float* w,
                     const float* dy, float* dx, float* dw);

/// y = w x r with r = (mean(x^2) + epsilon)^(-1/2); x and y (rows, features), w (features). The
/// scalars are computed in double.
void rms_norm_forward(int64_t rows, int64_t features, double epsilon, const float* x,
                      const float* w, float* y);
/// dx += r (w dy) - x (r^3 / features) sum(w dy x), dw += sum over rows of dy x r.
void rms_norm_backward(int64_t rows, int64_t features, double epsilon, const float* x,
                       const float* w, const float* dy, float* dx, float* dw);

/// Rotary positions by halves: channels i and i + D/2 of a head turn by position * theta^(-2i/D).
class Rope {
 public:
  /// `positions` of all rows; head_dim is even.
  Rope(int64_t head_dim, double theta, std::span<const int64_t> positions);
  /// x (rows, heads, head_dim) turns in place; with `back` the other way, which is the backward.
  void turn(int64_t heads, bool back, float* x) const;

 private:
  int64_t half_, rows_;
  std::vector<float> cosine_, sine_;  // (rows, head_dim / 2)
};

/// y = silu(gate) * up, silu(x) = x / (1 + exp(-x)); n elements each.
void swiglu_forward(int64_t n, const float* gate, const float* up, float* y);
/// d_gate and d_up are overwritten: silu'(x) = s + x s (1 - s), s = 1 / (1 + exp(-x)).
void swiglu_backward(int64_t n, const float* gate, const float* up, const float* dy, float* d_gate,
                     float* d_up);

}  // namespace bdlm::cpu
