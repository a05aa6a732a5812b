#include "bench/row_class.h"

namespace bdlm {
namespace {

bool begins_or_ends(int64_t i, int64_t size, int64_t all) {
  return i % size == 0 || (i + 1) % size == 0 || i + 1 == all;
}

bool inside_a_tile(int64_t row) {
  return row % class_tile != 0;
}

/// A row by its index among `all` rows of the call, and in its stream.
RowClass class_of(const BenchShape& shape, int64_t row, int64_t all, bool window_edge) {
  const int64_t at = row % shape.length;
  if (at < shape.block) {
    return RowClass::block_0;
  }
  if (shape.block > 0 && begins_or_ends(at, shape.block, shape.length)) {
    return RowClass::block_edges;
  }
  if (begins_or_ends(row, class_tile, all)) {
    return RowClass::tile_edges;
  }
  return window_edge ? RowClass::window_edges : RowClass::others;
}

}  // namespace

std::string_view name(RowClass c) {
  constexpr std::string_view names[row_class_count] = {"block_0", "block_edges", "tile_edges",
                                                       "window_edges", "others"};
  return names[static_cast<int>(c)];
}

std::vector<RowClass> query_classes(const BenchShape& shape) {
  std::vector<RowClass> classes(shape.rows());
  for (int64_t row = 0; row < shape.rows(); ++row) {
    const int64_t first_key = row + 1 - shape.window;
    const bool edge = shape.window > 0 && first_key > 0 && inside_a_tile(first_key);
    classes[row] = class_of(shape, row, shape.rows(), edge);
  }
  return classes;
}

std::vector<RowClass> key_classes(const BenchShape& shape) {
  std::vector<RowClass> classes(shape.length);
  for (int64_t key = 0; key < shape.length; ++key) {
    const int64_t behind = key + shape.window;  // the first query that does not see it
    const bool edge = shape.window > 0 && behind < shape.length && inside_a_tile(behind);
    classes[key] = class_of(shape, key, shape.length, edge);
  }
  return classes;
}

}  // namespace bdlm
