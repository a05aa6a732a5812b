#pragma once
// Copies of operands into the layouts that the tile kernels read.

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>

#include "reference/math/aligned.h"
#include "reference/math/tile.h"

namespace bdlm {

/// The size of a row of channels in a workspace: padded for the kernels, and in double an odd
/// number of cache lines, so that a column of channels does not fall into few cache sets.
template <class T>
int64_t padded_channels(int64_t channels) {
  return round_up(channels, std::lcm(Tile<T>::strip, Tile<T>::outer_columns));
}
template <class T>
int64_t row_stride(int64_t channels) {
  const int64_t n = padded_channels<T>(channels);
  return sizeof(T) == 8 && n % 16 == 0 ? n + 8 : n;
}

/// panel[x][lane] = source(lane)[x] for x < channels; 0 in lanes from `count` on and in the
/// padding.
template <class T, class Source>
void load_panel(int64_t count, int64_t channels, const Source& source, T* panel) {
  constexpr int64_t lanes = Tile<T>::lanes;
  const int64_t padded = padded_channels<T>(channels);
  if (count < lanes || channels < padded) {
    std::fill_n(panel, padded * lanes, T(0));
  }
  std::array<const T*, lanes> from{};
  for (int64_t lane = 0; lane < count; ++lane) {
    from[lane] = source(lane);
  }
  for (int64_t x = 0; x < channels; ++x) {
    for (int64_t lane = 0; lane < count; ++lane) {
      panel[x * lanes + lane] = from[lane][x];
    }
  }
}

/// Copies a matrix (rows, columns) with stride `from_stride` to one with stride `to_stride`; rows
/// up to `padded_rows` and columns up to the stride are 0.
template <class T>
void load_matrix(int64_t rows, int64_t columns, const T* from, int64_t from_stride,
                 int64_t padded_rows, int64_t to_stride, T* to) {
  for (int64_t i = 0; i < padded_rows; ++i) {
    const int64_t filled = i < rows ? columns : 0;
    std::copy_n(from + (i < rows ? i * from_stride : 0), filled, to + i * to_stride);
    std::fill(to + i * to_stride + filled, to + (i + 1) * to_stride, T(0));
  }
}

}  // namespace bdlm
