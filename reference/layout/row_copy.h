#pragma once
// Moves rows between storages that hold different rows.

#include <algorithm>
#include <cstdint>

#include "reference/base/error.h"
#include "reference/layout/row_set.h"

namespace bdlm {

/// Calls `visit(index, stored, count)` for runs of `rows`: rows `[index, index + count)` of them
/// are the rows `[stored, stored + count)` of `storage`. Throws LogicError where `storage` lacks a
/// row.
template <class Visit>
void for_each_run(const RowSet& rows, const RowSet& storage, Visit visit) {
  for (size_t s = 0; s < rows.segments().size(); ++s) {
    const Segment& segment = rows.segments()[s];
    // The holder's segments may be cut elsewhere, so rows are found one by one and joined.
    int64_t index = rows.offset(s);
    int64_t row = segment.rows.begin;
    while (row < segment.rows.end) {
      const int64_t stored = storage.find(segment.stream, row);
      require<LogicError>(stored >= 0, name(segment.stream), " row ", row,
                          " takes part in a transfer and is not held");
      int64_t count = 1;
      while (row + count < segment.rows.end &&
             storage.find(segment.stream, row + count) == stored + count) {
        ++count;
      }
      visit(index, stored, count);
      index += count;
      row += count;
    }
  }
}

/// dst (rows, width) = the same rows of `src`, which holds `storage`'s.
template <class T>
void pack_rows(const RowSet& rows, const RowSet& storage, int64_t width, const T* src, T* dst) {
  for_each_run(rows, storage, [&](int64_t index, int64_t stored, int64_t count) {
    std::copy_n(src + stored * width, count * width, dst + index * width);
  });
}

/// The rows of `dst`, which holds `storage`'s, = src (rows, width).
template <class T>
void unpack_rows(const RowSet& rows, const RowSet& storage, int64_t width, const T* src, T* dst) {
  for_each_run(rows, storage, [&](int64_t index, int64_t stored, int64_t count) {
    std::copy_n(src + index * width, count * width, dst + stored * width);
  });
}

/// The rows of `dst`, which holds `storage`'s, += src (rows, width).
template <class T>
void add_rows(const RowSet& rows, const RowSet& storage, int64_t width, const T* src, T* dst) {
  for_each_run(rows, storage, [&](int64_t index, int64_t stored, int64_t count) {
    for (int64_t i = 0; i < count * width; ++i) {
      dst[stored * width + i] += src[index * width + i];
    }
  });
}

}  // namespace bdlm
