#pragma once
// RMSNorm: y = w x r with r = (mean(x^2) + eps)^(-1/2), eps inside the root.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/base/parallel_for.h"

namespace bdlm {

/// r of one row x (features).
template <class T>
T inverse_rms(int64_t features, double eps, const T* x) {
  using std::sqrt;
  T sum(0);
  for (int64_t i = 0; i < features; ++i) {
    sum += x[i] * x[i];
  }
  return T(1) / sqrt(sum / T(features) + T(eps));
}

/// Rows are dealt to threads in fixed runs of this many.
inline constexpr int64_t norm_rows_per_unit = 64;

/// x and y (rows, features), w (features).
template <class T>
void rms_norm_forward(int64_t rows, int64_t features, double eps, const T* x, const T* w, T* y) {
  parallel_for((rows + norm_rows_per_unit - 1) / norm_rows_per_unit, [&](int64_t unit, int) {
    for (int64_t row = unit * norm_rows_per_unit;
         row < std::min(rows, (unit + 1) * norm_rows_per_unit); ++row) {
      const T* in = x + row * features;
      const T r = inverse_rms(features, eps, in);
      for (int64_t i = 0; i < features; ++i) {
        y[row * features + i] = w[i] * (in[i] * r);
      }
    }
  });
}

/// dx (rows, features) and dw (features) are added to:
///
///   dx = r (w dy) - x (r^3 / features) sum(w dy x),  dw = sum over rows of dy x r
template <class T>
void rms_norm_backward(int64_t rows, int64_t features, double eps, const T* x, const T* w,
                       const T* dy, T* dx, T* dw) {
  const int64_t units = (rows + norm_rows_per_unit - 1) / norm_rows_per_unit;
  std::vector<T> partial_dw(units * features, T(0));  // summed in order, whoever computed them
  parallel_for(units, [&](int64_t unit, int) {
    T* sum_dw = partial_dw.data() + unit * features;
    for (int64_t row = unit * norm_rows_per_unit;
         row < std::min(rows, (unit + 1) * norm_rows_per_unit); ++row) {
      const T* in = x + row * features;
      const T* d_out = dy + row * features;
      T* d_in = dx + row * features;
      const T r = inverse_rms(features, eps, in);
      T dot(0);
      for (int64_t i = 0; i < features; ++i) {
        dot += w[i] * d_out[i] * in[i];
      }
      const T common = r * r * r * dot / T(features);
      for (int64_t i = 0; i < features; ++i) {
        d_in[i] += r * (w[i] * d_out[i]) - in[i] * common;
        sum_dw[i] += d_out[i] * (in[i] * r);
      }
    }
  });
  for (int64_t unit = 0; unit < units; ++unit) {
    for (int64_t i = 0; i < features; ++i) {
      dw[i] += partial_dw[unit * features + i];
    }
  }
}

}  // namespace bdlm
