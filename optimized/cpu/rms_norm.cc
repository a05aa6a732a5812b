#include "optimized/cpu/rms_norm.h"

#include <cmath>
#include <vector>

#include "optimized/cpu/parallel_units.h"

namespace bdlm::cpu {
namespace {

/// Rows of a unit of work.
constexpr int64_t norm_rows = 64;

double inverse_rms(int64_t features, double epsilon, const float* x) {
  double sum = 0;
  for (int64_t i = 0; i < features; ++i) {
    sum += static_cast<double>(x[i]) * x[i];
  }
  return 1 / std::sqrt(sum / static_cast<double>(features) + epsilon);
}

}  // namespace

void rms_norm_forward(int64_t rows, int64_t features, double epsilon, const float* x,
                      const float* w, float* y) {
  parallel_units(rows, norm_rows, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* in = x + row * features;
      const auto r = static_cast<float>(inverse_rms(features, epsilon, in));
      for (int64_t i = 0; i < features; ++i) {
        y[row * features + i] = w[i] * (in[i] * r);
      }
    }
  });
}

void rms_norm_backward(int64_t rows, int64_t features, double epsilon, const float* x,
                       const float* w, const float* dy, float* dx, float* dw) {
  // By unit, so that the order of the sum over rows is always the same.
  std::vector<float> partial(units_of(rows, norm_rows) * features, 0.0F);
  parallel_units(rows, norm_rows, [&](int64_t unit, int64_t begin, int64_t end) {
    float* sum = partial.data() + unit * features;
    for (int64_t row = begin; row < end; ++row) {
      const float* in = x + row * features;
      const float* d_out = dy + row * features;
      float* d_in = dx + row * features;
      const double r = inverse_rms(features, epsilon, in);
      double dot = 0;
      for (int64_t i = 0; i < features; ++i) {
        dot += static_cast<double>(w[i]) * d_out[i] * in[i];
      }
      const double common = r * r * r * dot / static_cast<double>(features);
      for (int64_t i = 0; i < features; ++i) {
        // In double, since the two parts may cancel.
        d_in[i] += static_cast<float>(r * (static_cast<double>(w[i]) * d_out[i]) - in[i] * common);
        sum[i] += static_cast<float>(static_cast<double>(d_out[i]) * (in[i] * r));
      }
    }
  });
  for (int64_t unit = 0; unit < units_of(rows, norm_rows); ++unit) {
    for (int64_t i = 0; i < features; ++i) {
      dw[i] += partial[unit * features + i];
    }
  }
}

}  // namespace bdlm::cpu
