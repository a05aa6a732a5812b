#include "bench/row_class.h"

#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

namespace bdlm {
namespace {

BenchShape block_shape(int64_t length, int64_t block) {
  BenchShape shape;
  shape.mask = MaskKind::block_diffusion;
  shape.length = length;
  shape.block = block;
  return shape;
}

BenchShape sliding_shape(int64_t length, int64_t window) {
  BenchShape shape;
  shape.mask = MaskKind::sliding;
  shape.length = length;
  shape.window = window;
  return shape;
}

std::set<int64_t> rows_in(const std::vector<RowClass>& classes, RowClass c) {
  std::set<int64_t> rows;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] == c) {
      rows.insert(static_cast<int64_t>(i));
    }
  }
  return rows;
}

using Rows = std::set<int64_t>;

BOOST_AUTO_TEST_CASE(row_classes_have_the_names_of_the_report) {
  const char* names[row_class_count] = {"block_0", "block_edges", "tile_edges", "window_edges",
                                        "others"};
  for (int i = 0; i < row_class_count; ++i) {
    BOOST_TEST(name(static_cast<RowClass>(i)) == names[i]);
  }
}

BOOST_AUTO_TEST_CASE(the_first_block_counts_in_either_stream) {
  const auto classes = query_classes(block_shape(12, 4));
  BOOST_TEST(classes.size() == 24U);
  BOOST_TEST((rows_in(classes, RowClass::block_0) == Rows{0, 1, 2, 3, 12, 13, 14, 15}));
  BOOST_TEST((rows_in(classes, RowClass::block_edges) == Rows{4, 7, 8, 11, 16, 19, 20, 23}));
  BOOST_TEST((rows_in(classes, RowClass::others) == Rows{5, 6, 9, 10, 17, 18, 21, 22}));
}

BOOST_AUTO_TEST_CASE(a_short_last_block_has_an_edge) {
  const auto keys = key_classes(block_shape(11, 4));
  BOOST_TEST(keys.size() == 11U);
  BOOST_TEST((rows_in(keys, RowClass::block_0) == Rows{0, 1, 2, 3}));
  BOOST_TEST((rows_in(keys, RowClass::block_edges) == Rows{4, 7, 8, 10}));
}

BOOST_AUTO_TEST_CASE(a_block_of_one_row_is_all_edge) {
  const auto keys = key_classes(block_shape(5, 1));
  BOOST_TEST((rows_in(keys, RowClass::block_0) == Rows{0}));
  BOOST_TEST((rows_in(keys, RowClass::block_edges) == Rows{1, 2, 3, 4}));
}

BOOST_AUTO_TEST_CASE(tiles_are_counted_over_all_rows_and_the_last_may_be_short) {
  // 150 clean and 150 corrupted rows in blocks of 50: tiles begin at 0, 128 and 256.
  const auto queries = query_classes(block_shape(150, 50));
  BOOST_TEST((rows_in(queries, RowClass::tile_edges) == Rows{127, 128, 255, 256}));
  const auto keys = key_classes(block_shape(150, 50));
  BOOST_TEST((rows_in(keys, RowClass::tile_edges) == Rows{127, 128}));
  BenchShape causal;
  causal.length = 200;
  const auto rows = query_classes(causal);
  BOOST_TEST((rows_in(rows, RowClass::tile_edges) == Rows{0, 127, 128, 199}));
  BOOST_TEST(rows_in(rows, RowClass::others).size() == 196U);
  BOOST_TEST(rows_in(rows, RowClass::block_0).empty());
  BOOST_TEST(rows_in(rows, RowClass::block_edges).empty());
  BOOST_TEST(rows_in(rows, RowClass::window_edges).empty());
}

BOOST_AUTO_TEST_CASE(window_edges_are_queries_whose_first_key_is_inside_a_tile) {
  // Row r sees [r - 99, r]: the first key of row 227 is 128.
  const auto rows = query_classes(sliding_shape(300, 100));
  Rows want;
  for (int64_t r = 100; r < 299; ++r) {
    if (r != 127 && r != 128 && r != 227 && r != 255 && r != 256) {
      want.insert(r);
    }
  }
  BOOST_TEST((rows_in(rows, RowClass::window_edges) == want));
  BOOST_TEST((rows_in(rows, RowClass::tile_edges) == Rows{0, 127, 128, 255, 256, 299}));
  BOOST_TEST(rows_in(rows, RowClass::others).count(227) == 1U);
  BOOST_TEST(rows_in(rows, RowClass::others).count(99) == 1U);
}

BOOST_AUTO_TEST_CASE(window_edges_are_keys_whose_last_query_is_inside_a_tile) {
  // Rows [k, k + 99] see key k: of key 28 the last is 127; from key 200 on it is the last of all.
  const auto keys = key_classes(sliding_shape(300, 100));
  const auto edges = rows_in(keys, RowClass::window_edges);
  BOOST_TEST(edges.count(27) == 1U);
  BOOST_TEST(edges.count(28) == 0U);
  BOOST_TEST(edges.count(29) == 1U);
  BOOST_TEST(edges.count(156) == 0U);
  BOOST_TEST(edges.count(199) == 1U);
  BOOST_TEST(edges.count(200) == 0U);
}

BOOST_AUTO_TEST_CASE(every_row_has_one_class_at_a_window_of_whole_tiles) {
  const auto rows = query_classes(sliding_shape(4096, 1024));
  BOOST_TEST(rows.size() == 4096U);
  std::map<RowClass, int64_t> counts;
  for (const RowClass c : rows) {
    ++counts[c];
  }
  BOOST_TEST(counts[RowClass::tile_edges] == 64);
  // Rows 1024 to 4095, but for the tile edges: there the window ends where a tile does.
  BOOST_TEST(counts[RowClass::window_edges] == 3072 - 48);
  BOOST_TEST(counts[RowClass::others] == 1024 - 16);
}

}  // namespace
}  // namespace bdlm
