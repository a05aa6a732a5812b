#pragma once
// exp of four doubles at once.

#include <immintrin.h>

namespace bdlm {

/// exp(x) to within one unit in the last place. Gradual underflow as usual, 0 below; +inf above the
/// range; NaN for NaN; exactly 1 at 0.
///
/// x = n log 2 + r with |r| <= log(2)/2; exp(r) = 1 + r + r^2 q(r). q interpolates
/// (exp(r) - 1 - r) / r^2 at the ten Chebyshev nodes of the interval; with rounded coefficients
/// exp(r) is off by at most 1.6e-17. 2^n is applied in two factors, which keeps the first product
/// exact and both factors in range over the whole domain.
inline __m256d vector_exp(__m256d x) {
  const auto all = [](double v) { return _mm256_set1_pd(v); };
  // max and min return their second operand if one is NaN.
  x = _mm256_max_pd(all(-1000.0), x);
  x = _mm256_min_pd(all(1000.0), x);
  const __m256d magic = all(0x1.8p52);  // adding it rounds to an integer, kept in the low bits
  const __m256d t = _mm256_fmadd_pd(x, all(0x1.71547652b82fep+0), magic);
  const __m256d n = _mm256_sub_pd(t, magic);
  __m256d r = _mm256_fnmadd_pd(n, all(0x1.62e42fee00000p-1), x);  // log 2, high part: n times it
  r = _mm256_fnmadd_pd(n, all(0x1.a39ef35793c76p-33), r);         // is exact

  __m256d q = all(0x1.af38a9b0ec855p-26);
  q = _mm256_fmadd_pd(q, r, all(0x1.289185613a3d6p-22));
  q = _mm256_fmadd_pd(q, r, all(0x1.71de0dae63bb3p-19));
  q = _mm256_fmadd_pd(q, r, all(0x1.a019b90d2ae7ap-16));
  q = _mm256_fmadd_pd(q, r, all(0x1.a01a01a7c41d5p-13));
  q = _mm256_fmadd_pd(q, r, all(0x1.6c16c1788bd90p-10));
  q = _mm256_fmadd_pd(q, r, all(0x1.11111111109b3p-7));
  q = _mm256_fmadd_pd(q, r, all(0x1.5555555553d63p-5));
  q = _mm256_fmadd_pd(q, r, all(0x1.5555555555556p-3));
  q = _mm256_fmadd_pd(q, r, all(0x1.0000000000001p-1));
  const __m256d p = _mm256_add_pd(_mm256_fmadd_pd(_mm256_mul_pd(r, r), q, r), all(1.0));

  const __m256i bits = _mm256_castpd_si256(t);
  const __m256i half = _mm256_srai_epi32(bits, 1);  // only the low halves of the lanes are used
  const __m256i rest = _mm256_sub_epi32(bits, half);
  const __m256i bias = _mm256_set1_epi64x(1023);
  const auto power = [&](__m256i e) {
    return _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_add_epi64(e, bias), 52));
  };
  return _mm256_mul_pd(_mm256_mul_pd(p, power(half)), power(rest));
}

}  // namespace bdlm
