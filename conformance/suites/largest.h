#pragma once
// The size of tensors and of their differences. A NaN stays the largest.

#include <cmath>
#include <cstdint>

namespace bdlm {

/// max |values|
inline double largest(const double* values, int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < count; ++i) {
    most = std::abs(values[i]) <= most ? most : std::abs(values[i]);
  }
  return most;
}

/// max |a - b|
inline double largest_difference(const double* a, const double* b, int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double d = std::abs(a[i] - b[i]);
    most = d <= most ? most : d;
  }
  return most;
}

}  // namespace bdlm
