#include "reference/parallel/key_passes.h"

#include <boost/test/unit_test.hpp>
#include <set>

#include "reference/base/error.h"
#include "reference/layout/row_copy.h"
#include "reference/layout/visibility.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(key_passes_suite)

namespace {

using Pair = std::pair<int64_t, int64_t>;

/// The (query index, key index) pairs of all passes; fails when one occurs twice.
std::set<Pair> pairs_of(const std::vector<KeyPass>& passes) {
  std::set<Pair> out;
  for (const KeyPass& pass : passes) {
    BOOST_REQUIRE(pass.rows.size() == static_cast<int64_t>(pass.keys.size()));
    for (size_t i = 0; i < pass.keys.size(); ++i) {
      for (int64_t j = pass.keys[i].begin; j < pass.keys[i].end; ++j) {
        BOOST_TEST(out.insert({pass.rows.begin + static_cast<int64_t>(i), j}).second);
      }
    }
  }
  return out;
}

// Storage: corrupted [4,8) at 0..3, clean [0,2) at 4,5, clean [5,8) at 6..8. Corrupted rows 4, 5
// see corrupted [4,6) and clean [0,2) and [5,6): three passes, the key 5 behind a gap in storage.
BOOST_AUTO_TEST_CASE(passes_as_worked_by_hand) {
  const RowSet rows({{4, 8}}, {{0, 2}, {5, 8}});
  const std::vector<Band> bands = {{Stream::corrupted, {4, 6}, Stream::corrupted, {4, 6}},
                                   {Stream::corrupted, {4, 6}, Stream::clean, {0, 2}},
                                   {Stream::corrupted, {4, 6}, Stream::clean, {5, 6}}};
  const std::vector<KeyPass> passes = key_passes(bands, rows, rows);
  BOOST_REQUIRE(passes.size() == 3u);
  const std::vector<Interval> keys[3] = {{{0, 2}, {0, 2}}, {{4, 6}, {4, 6}}, {{6, 7}, {6, 7}}};
  for (int p = 0; p < 3; ++p) {
    BOOST_TEST(passes[p].rows == (Interval{0, 2}));
    BOOST_TEST(passes[p].keys == keys[p], boost::test_tools::per_element());
  }
}

// A causal window of 2 over clean rows in two segments; keys of row 5 cross from one to the other.
BOOST_AUTO_TEST_CASE(bands_may_cross_segments) {
  const RowSet queries({}, {{5, 7}});
  const RowSet buffer({}, {{0, 5}, {5, 9}});
  const Band window{Stream::clean, {5, 7}, Stream::clean, {0, 9}, -1, 1};
  const std::set<Pair> expected = {{0, 4}, {0, 5}, {1, 5}, {1, 6}};
  BOOST_TEST((pairs_of(key_passes(std::vector<Band>{window}, queries, buffer)) == expected));
}

// The union of passes = the pairs that visible() allows, each once.
BOOST_AUTO_TEST_CASE(passes_cover_what_is_visible) {
  const Sequence sequence = Sequence::uniform(23, 4, {{0, 5}, {5, 16}, {18, 23}});
  const RowSet all({{0, 23}}, {{0, 23}});
  for (const CleanRule clean : {CleanRule::block_causal, CleanRule::token_causal}) {
    for (const int64_t window : {0, 1, 3, 40}) {
      const LayerRule rule{clean, window};
      std::vector<Band> bands;
      std::set<Pair> expected;
      for (const Stream query : {Stream::corrupted, Stream::clean}) {
        for (const Stream key : {Stream::corrupted, Stream::clean}) {
          for (const Band& band : visible_bands(sequence, rule, query, {0, 23}, key)) {
            bands.push_back(band);
          }
          for (int64_t row = 0; row < 23; ++row) {
            const Interval seen = visible(sequence, rule, query, row, key);
            for (int64_t j = seen.begin; j < seen.end; ++j) {
              expected.insert({all.find(query, row), all.find(key, j)});
            }
          }
        }
      }
      const std::vector<KeyPass> passes = key_passes(bands, all, all);
      BOOST_TEST((pairs_of(passes) == expected));
      // A window of 1 leaves corrupted rows without clean keys.
      BOOST_TEST(passes.size() == (window == 1 ? 1u : 2u));
    }
  }
}

BOOST_AUTO_TEST_CASE(rows_that_are_not_held_are_errors) {
  const RowSet rows({{0, 4}}, {{0, 2}});
  const auto attend = [&](const Band& band) {
    return key_passes(std::vector<Band>{band}, rows, rows);
  };
  BOOST_CHECK_THROW(attend({Stream::corrupted, {3, 5}, Stream::clean, {0, 2}}), LogicError);
  BOOST_CHECK_THROW(attend({Stream::corrupted, {0, 4}, Stream::clean, {0, 3}}), LogicError);
  BOOST_TEST(attend({Stream::corrupted, {0, 4}, Stream::clean, {0, 2}}).size() == 1u);
}

// pack, unpack and add move rows by name, not by place.
BOOST_AUTO_TEST_CASE(rows_are_copied_by_name) {
  const RowSet storage({{0, 2}}, {{0, 1}, {4, 7}});  // x0 x1 c0 c4 c5 c6
  const RowSet rows({{1, 2}}, {{0, 1}, {5, 7}});     // x1 c0 c5 c6
  const std::vector<int> held = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  std::vector<int> packed(8, 0);
  pack_rows(rows, storage, 2, held.data(), packed.data());
  BOOST_TEST(packed == std::vector<int>({3, 4, 5, 6, 9, 10, 11, 12}),
             boost::test_tools::per_element());
  std::vector<int> back(12, 0);
  unpack_rows(rows, storage, 2, packed.data(), back.data());
  add_rows(rows, storage, 2, packed.data(), back.data());
  BOOST_TEST(back == std::vector<int>({0, 0, 6, 8, 10, 12, 0, 0, 18, 20, 22, 24}),
             boost::test_tools::per_element());
  BOOST_CHECK_THROW(pack_rows(RowSet({}, {{0, 2}}), storage, 2, held.data(), packed.data()),
                    LogicError);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
