#pragma once
// The exponentials of a long row, for softmaxes that are not tiled.

#include <cmath>
#include <cstdint>

#if defined(__AVX2__) && defined(__FMA__)
#include "reference/math/vector_exp.h"
#endif

namespace bdlm {

/// x[i] becomes exp(x[i] - shift), i < n. Returns the sum.
template <class T>
T exp_row(int64_t n, const T& shift, T* x) {
  using std::exp;
  T sum(0);
  for (int64_t i = 0; i < n; ++i) {
    x[i] = exp(x[i] - shift);
    sum += x[i];
  }
  return sum;
}

#if defined(__AVX2__) && defined(__FMA__)
template <>
inline double exp_row<double>(int64_t n, const double& shift, double* x) {
  const __m256d shifts = _mm256_set1_pd(shift);
  __m256d sums = _mm256_setzero_pd();
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const __m256d y = vector_exp(_mm256_sub_pd(_mm256_loadu_pd(x + i), shifts));
    _mm256_storeu_pd(x + i, y);
    sums = _mm256_add_pd(sums, y);
  }
  alignas(32) double parts[4];
  if (i < n) {
    const int64_t rest = n - i;
    for (int64_t lane = 0; lane < 4; ++lane) {
      parts[lane] = lane < rest ? x[i + lane] - shift : -1000.0;
    }
    _mm256_store_pd(parts, vector_exp(_mm256_load_pd(parts)));
    for (int64_t lane = 0; lane < rest; ++lane) {
      x[i + lane] = parts[lane];
    }
    sums = _mm256_add_pd(sums, _mm256_load_pd(parts));
  }
  _mm256_store_pd(parts, sums);
  return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}
#endif

}  // namespace bdlm
