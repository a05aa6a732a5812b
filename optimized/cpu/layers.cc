#include "optimized/cpu/layers.h"

#include <algorithm>
#include <cmath>

#include "optimized/cpu/matrix_product.h"
#include "optimized/cpu/parallel.h"
#include "optimized/cpu/vector_exp.h"

namespace bdlm::cpu {
namespace {

/// Rows of a norm, or elements of a SwiGLU, in a unit of work.
constexpr int64_t unit_rows = 64;
constexpr int64_t unit_elements = 4096;
constexpr int64_t vector_lanes = 8;

int64_t units(int64_t n, int64_t size) {
  return (n + size - 1) / size;
}

double inverse_rms(int64_t features, double epsilon, const float* x) {
  double sum = 0;
  for (int64_t i = 0; i < features; ++i) {
    sum += static_cast<double>(x[i]) * x[i];
  }
  return 1 / std::sqrt(sum / static_cast<double>(features) + epsilon);
}

/// e = exp(-|x|) gives both 1 / (1 + exp(-x)) and 1 / (1 + exp(x)) without cancellation.
struct Sigmoids {
  __m256 of_x, of_minus_x;
};

Sigmoids sigmoids(__m256 x) {
  const __m256 one = _mm256_set1_ps(1.0F);
  const __m256 e = vector_exp(_mm256_or_ps(x, _mm256_set1_ps(-0.0F)));
  const __m256 larger = _mm256_div_ps(one, _mm256_add_ps(one, e));
  const __m256 smaller = _mm256_mul_ps(e, larger);
  // blendv looks at the sign bit.
  return {_mm256_blendv_ps(larger, smaller, x), _mm256_blendv_ps(smaller, larger, x)};
}

/// Eight elements from i on, and how many of them exist; others are 0.
__m256 load(const float* x, int64_t count) {
  if (count >= vector_lanes) {
    return _mm256_loadu_ps(x);
  }
  alignas(32) float part[vector_lanes] = {};
  std::copy_n(x, count, part);
  return _mm256_load_ps(part);
}

void store(__m256 x, float* to, int64_t count) {
  alignas(32) float part[vector_lanes];
  _mm256_store_ps(part, x);
  std::copy_n(part, std::min(count, vector_lanes), to);
}

}  // namespace

void linear_forward(int64_t rows, int64_t in, int64_t out, const float* x, const float* w,
                    float* y) {
  matrix_product(rows, out, in, {x, in, 1}, {w, 1, in}, y, false);
}

void linear_backward(int64_t rows, int64_t in, int64_t out, const float* x, const float* w,
                     const float* dy, float* dx, float* dw) {
  matrix_product(rows, in, out, {dy, out, 1}, {w, in, 1}, dx, true);
  matrix_product(out, in, rows, {dy, 1, out}, {x, in, 1}, dw, true);
}

void rms_norm_forward(int64_t rows, int64_t features, double epsilon, const float* x,
                      const float* w, float* y) {
  parallel_for(units(rows, unit_rows), [&](int64_t unit, int) {
    for (int64_t row = unit * unit_rows; row < std::min(rows, (unit + 1) * unit_rows); ++row) {
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
  std::vector<float> partial(units(rows, unit_rows) * features, 0.0F);
  parallel_for(units(rows, unit_rows), [&](int64_t unit, int) {
    float* sum = partial.data() + unit * features;
    for (int64_t row = unit * unit_rows; row < std::min(rows, (unit + 1) * unit_rows); ++row) {
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
  for (int64_t unit = 0; unit < units(rows, unit_rows); ++unit) {
    for (int64_t i = 0; i < features; ++i) {
      dw[i] += partial[unit * features + i];
    }
  }
}

Rope::Rope(int64_t head_dim, double theta, std::span<const int64_t> positions)
    : half_(head_dim / 2),
      rows_(std::ssize(positions)),
      cosine_(half_ * rows_),
      sine_(half_ * rows_) {
  std::vector<double> frequency(half_);
  for (int64_t i = 0; i < half_; ++i) {
    frequency[i] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
  }
  parallel_for(units(rows_, unit_rows), [&](int64_t unit, int) {
    for (int64_t row = unit * unit_rows; row < std::min(rows_, (unit + 1) * unit_rows); ++row) {
      for (int64_t i = 0; i < half_; ++i) {
        const double angle = static_cast<double>(positions[row]) * frequency[i];
        cosine_[row * half_ + i] = static_cast<float>(std::cos(angle));
        sine_[row * half_ + i] = static_cast<float>(std::sin(angle));
      }
    }
  });
}

void Rope::turn(int64_t heads, bool back, float* x) const {
  parallel_for(units(rows_, unit_rows), [&](int64_t unit, int) {
    for (int64_t row = unit * unit_rows; row < std::min(rows_, (unit + 1) * unit_rows); ++row) {
      const float* c = cosine_.data() + row * half_;
      const float* s = sine_.data() + row * half_;
      for (int64_t head = 0; head < heads; ++head) {
        float* low = x + (row * heads + head) * 2 * half_;
        float* high = low + half_;
        for (int64_t i = 0; i < half_; ++i) {
          const float sine = back ? -s[i] : s[i];
          const float a = low[i];
          const float b = high[i];
          low[i] = a * c[i] - b * sine;
          high[i] = b * c[i] + a * sine;
        }
      }
    }
  });
}

void swiglu_forward(int64_t n, const float* gate, const float* up, float* y) {
  parallel_for(units(n, unit_elements), [&](int64_t unit, int) {
    const int64_t end = std::min(n, (unit + 1) * unit_elements);
    for (int64_t i = unit * unit_elements; i < end; i += vector_lanes) {
      const __m256 g = load(gate + i, end - i);
      const __m256 silu = _mm256_mul_ps(g, sigmoids(g).of_x);
      store(_mm256_mul_ps(silu, load(up + i, end - i)), y + i, end - i);
    }
  });
}

void swiglu_backward(int64_t n, const float* gate, const float* up, const float* dy, float* d_gate,
                     float* d_up) {
  parallel_for(units(n, unit_elements), [&](int64_t unit, int) {
    const int64_t end = std::min(n, (unit + 1) * unit_elements);
    for (int64_t i = unit * unit_elements; i < end; i += vector_lanes) {
      const __m256 g = load(gate + i, end - i);
      const __m256 d = load(dy + i, end - i);
      const Sigmoids s = sigmoids(g);
      const __m256 silu = _mm256_mul_ps(g, s.of_x);
      const __m256 slope = _mm256_fmadd_ps(silu, s.of_minus_x, s.of_x);
      store(_mm256_mul_ps(_mm256_mul_ps(d, load(up + i, end - i)), slope), d_gate + i, end - i);
      store(_mm256_mul_ps(d, silu), d_up + i, end - i);
    }
  });
}

}  // namespace bdlm::cpu
