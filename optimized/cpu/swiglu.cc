#include "optimized/cpu/swiglu.h"

#include <algorithm>

#include "optimized/cpu/parallel_units.h"
#include "optimized/cpu/vector_exp.h"

namespace bdlm::cpu {
namespace {

/// Elements of a unit of work.
constexpr int64_t unit_elements = 4096;
constexpr int64_t vector_lanes = 8;

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

void swiglu_forward(int64_t n, const float* gate, const float* up, float* y) {
  parallel_units(n, unit_elements, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += vector_lanes) {
      const __m256 g = load(gate + i, end - i);
      const __m256 silu = _mm256_mul_ps(g, sigmoids(g).of_x);
      store(_mm256_mul_ps(silu, load(up + i, end - i)), y + i, end - i);
    }
  });
}

void swiglu_backward(int64_t n, const float* gate, const float* up, const float* dy, float* d_gate,
                     float* d_up) {
  parallel_units(n, unit_elements, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += vector_lanes) {
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
