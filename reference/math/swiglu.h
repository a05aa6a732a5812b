#pragma once
// SwiGLU: y = silu(gate) * up, with silu(x) = x / (1 + exp(-x)).

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "reference/base/parallel_for.h"

namespace bdlm {

/// 1 / (1 + exp(-x)) without overflow on either side.
template <class T>
T sigmoid(const T& x) {
  using std::exp;
  if (x < T(0)) {
    const T e = exp(x);
    return e / (T(1) + e);
  }
  return T(1) / (T(1) + exp(-x));
}

/// Elements are dealt to threads in runs of this many.
inline constexpr int64_t swiglu_elements_per_unit = 4096;

/// All arrays hold n elements.
template <class T>
void swiglu_forward(int64_t n, const T* gate, const T* up, T* y) {
  constexpr int64_t run = swiglu_elements_per_unit;
  parallel_for((n + run - 1) / run, [&](int64_t unit, int) {
    for (int64_t i = unit * run; i < std::min(n, (unit + 1) * run); ++i) {
      y[i] = gate[i] * sigmoid(gate[i]) * up[i];
    }
  });
}

/// d_gate and d_up are added to: silu'(x) = s + x s (1 - s) with s = sigmoid(x).
template <class T>
void swiglu_backward(int64_t n, const T* gate, const T* up, const T* dy, T* d_gate, T* d_up) {
  constexpr int64_t run = swiglu_elements_per_unit;
  parallel_for((n + run - 1) / run, [&](int64_t unit, int) {
    for (int64_t i = unit * run; i < std::min(n, (unit + 1) * run); ++i) {
      const T s = sigmoid(gate[i]);
      // sigmoid(-x) is 1 - s without cancellation.
      d_gate[i] += dy[i] * up[i] * (s + gate[i] * s * sigmoid(T(-gate[i])));
      d_up[i] += dy[i] * (gate[i] * s);
    }
  });
}

}  // namespace bdlm
