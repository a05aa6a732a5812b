#pragma once
// exp of eight floats at once.

#include <immintrin.h>

namespace bdlm::cpu {

/// exp(x) to within one unit in the last place; exactly 1 at 0; gradual underflow as usual, 0
/// below; +inf above the range; NaN for NaN.
///
/// x = n log 2 + r with |r| <= log(2)/2; exp(r) = 1 + r + r^2 q(r). q interpolates
/// (exp(r) - 1 - r) / r^2 at the six Chebyshev nodes of the interval; with coefficients rounded to
/// float it is off by at most 7.6e-10 exp(r). 2^n is applied in two factors, which keeps the first
/// product exact and both factors in range over the whole domain.
inline __m256 vector_exp(__m256 x) {
  const auto all = [](float v) { return _mm256_set1_ps(v); };
  // max and min return their second operand if one is NaN.
  x = _mm256_max_ps(all(-105.0F), x);
  x = _mm256_min_ps(all(90.0F), x);
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, all(0x1.715476p+0F)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, all(0x1.62e4p-1F), x);  // log 2, high part: n times it is exact
  r = _mm256_fnmadd_ps(n, all(0x1.7f7d1cp-20F), r);
  __m256 q = all(0x1.a1256cp-13F);
  q = _mm256_fmadd_ps(q, r, all(0x1.6d43b0p-10F));
  q = _mm256_fmadd_ps(q, r, all(0x1.1110e0p-7F));
  q = _mm256_fmadd_ps(q, r, all(0x1.5554e8p-5F));
  q = _mm256_fmadd_ps(q, r, all(0x1.555556p-3F));
  q = _mm256_fmadd_ps(q, r, all(0.5F));
  const __m256 p = _mm256_add_ps(_mm256_fmadd_ps(_mm256_mul_ps(r, r), q, r), all(1.0F));

  const __m256i e = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(e, 1);
  const __m256i rest = _mm256_sub_epi32(e, half);
  const auto power = [](__m256i k) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(k, _mm256_set1_epi32(127)), 23));
  };
  return _mm256_mul_ps(_mm256_mul_ps(p, power(half)), power(rest));
}

}  // namespace bdlm::cpu
