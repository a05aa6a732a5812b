#pragma once
// The inner loop of all attention products: columns in panels of sixteen.

#include <cstdint>

namespace bdlm::cpu {

/// Columns of a panel: two vectors of eight floats.
inline constexpr int64_t panel_width = 16;

/// A matrix of which element (i, j) is at data[i * row + j * column].
struct Strided {
  const float* data;
  int64_t row, column;
};

/// c (n, 16) = or, with `add`, += the product of a (n, k) and b (k, 16); rows of b and c are
/// b_stride and c_stride apart and begin at multiples of eight floats. Each element is one chain of
/// fused multiply-adds from 0 in ascending k, whatever n is, and then one addition to c.
void panel_product(int64_t n, int64_t k, Strided a, const float* b, int64_t b_stride, float* c,
                   int64_t c_stride, bool add);

}  // namespace bdlm::cpu
