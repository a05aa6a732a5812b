#pragma once
// Rows between storages that hold different rows.

#include <algorithm>
#include <cstdint>

#include "reference/base/error.h"
#include "reference/layout/row_set.h"

namespace bdlm::cpu {

/// Calls visit(index, stored) for each of `rows`: its index among them, and in `storage`. Throws
/// LogicError where `storage` lacks it.
template <class Visit>
void for_each_row(const RowSet& rows, const RowSet& storage, const Visit& visit) {
  int64_t index = 0;
  for (const Segment& segment : rows.segments()) {
    for (int64_t row = segment.rows.begin; row < segment.rows.end; ++row, ++index) {
      const int64_t stored = storage.find(segment.stream, row);
      require<LogicError>(stored >= 0, name(segment.stream), " row ", row,
                          " is to be moved and is not held");
      visit(index, stored);
    }
  }
}

/// to (rows, width) = these rows of `from`, which holds those of `storage`.
inline void take_rows(const RowSet& rows, const RowSet& storage, int64_t width, const float* from,
                      float* to) {
  for_each_row(rows, storage, [&](int64_t index, int64_t stored) {
    std::copy_n(from + stored * width, width, to + index * width);
  });
}

/// These rows of `to`, which holds those of `storage`, = from (rows, width).
inline void put_rows(const RowSet& rows, const RowSet& storage, int64_t width, const float* from,
                     float* to) {
  for_each_row(rows, storage, [&](int64_t index, int64_t stored) {
    std::copy_n(from + index * width, width, to + stored * width);
  });
}

/// The same with += .
inline void add_rows(const RowSet& rows, const RowSet& storage, int64_t width, const float* from,
                     float* to) {
  for_each_row(rows, storage, [&](int64_t index, int64_t stored) {
    for (int64_t c = 0; c < width; ++c) {
      to[stored * width + c] += from[index * width + c];
    }
  });
}

}  // namespace bdlm::cpu
