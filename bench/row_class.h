#pragma once
// Rows of an attention layer by where they lie: mistakes of kernels are at edges more often than
// elsewhere, and few rows do not show in the figures of a whole tensor.

#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/attention_shape.h"

namespace bdlm {

/// A row that lies in several places counts to the first of them.
enum class RowClass : uint8_t {
  /// In the first block, of either stream.
  block_0,
  /// First or last of a block.
  block_edges,
  /// First or last of a tile of `class_tile`, which are counted over all rows of the call.
  tile_edges,
  /// Its window ends inside a tile: of a query the first key, of a key the last query.
  window_edges,
  others,
};
inline constexpr int row_class_count = 5;
inline constexpr int64_t class_tile = 128;

/// As the enumerator, for instance "block_0".
std::string_view name(RowClass c);

/// Of the rows of O and dQ, shape.rows(): the clean rows, then the corrupted ones.
std::vector<RowClass> query_classes(const BenchShape& shape);

/// Of the rows of dK and dV, shape.length; the same for every stream.
std::vector<RowClass> key_classes(const BenchShape& shape);

}  // namespace bdlm
