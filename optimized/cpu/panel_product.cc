#include "optimized/cpu/panel_product.h"

#include <immintrin.h>

namespace bdlm::cpu {
namespace {

/// N rows of c. Six rows of two vectors, two vectors of b and a broadcast fit the sixteen
/// registers.
template <int N>
void rows(int64_t k, const Strided& a, const float* b, int64_t b_stride, float* c, int64_t c_stride,
          bool add) {
  __m256 sum[N][2];
#pragma GCC unroll 6
  for (int i = 0; i < N; ++i) {
    sum[i][0] = _mm256_setzero_ps();
    sum[i][1] = _mm256_setzero_ps();
  }
  const float* at = a.data;
  for (int64_t j = 0; j < k; ++j, at += a.column, b += b_stride) {
    const __m256 b0 = _mm256_load_ps(b);
    const __m256 b1 = _mm256_load_ps(b + 8);
#pragma GCC unroll 6
    for (int i = 0; i < N; ++i) {
      const __m256 x = _mm256_broadcast_ss(at + i * a.row);
      sum[i][0] = _mm256_fmadd_ps(x, b0, sum[i][0]);
      sum[i][1] = _mm256_fmadd_ps(x, b1, sum[i][1]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < N; ++i) {
    float* out = c + i * c_stride;
    if (add) {
      sum[i][0] = _mm256_add_ps(_mm256_load_ps(out), sum[i][0]);
      sum[i][1] = _mm256_add_ps(_mm256_load_ps(out + 8), sum[i][1]);
    }
    _mm256_store_ps(out, sum[i][0]);
    _mm256_store_ps(out + 8, sum[i][1]);
  }
}

}  // namespace

void panel_product(int64_t n, int64_t k, Strided a, const float* b, int64_t b_stride, float* c,
                   int64_t c_stride, bool add) {
  constexpr int64_t step = 6;
  for (; n >= step; n -= step, a.data += step * a.row, c += step * c_stride) {
    rows<step>(k, a, b, b_stride, c, c_stride, add);
  }
  switch (n) {
    case 5:
      return rows<5>(k, a, b, b_stride, c, c_stride, add);
    case 4:
      return rows<4>(k, a, b, b_stride, c, c_stride, add);
    case 3:
      return rows<3>(k, a, b, b_stride, c, c_stride, add);
    case 2:
      return rows<2>(k, a, b, b_stride, c, c_stride, add);
    case 1:
      return rows<1>(k, a, b, b_stride, c, c_stride, add);
    default:
      return;
  }
}

}  // namespace bdlm::cpu
