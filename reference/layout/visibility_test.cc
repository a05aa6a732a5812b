#include "reference/layout/visibility.h"

#include <boost/test/unit_test.hpp>
#include <random>

namespace bdlm {
BOOST_AUTO_TEST_SUITE(visibility)

namespace {

/// The mask of one pair, straight from its words: no interval, no closed form.
bool may_see(const Sequence& s, const LayerRule& rule, Stream query, int64_t i, Stream key,
             int64_t j) {
  if (s.is_padding(i) || s.is_padding(j) || !(s.document_of(i) == s.document_of(j))) {
    return false;
  }
  const int64_t block_i = s.block_of(i);
  const int64_t block_j = s.block_of(j);
  if (query == Stream::corrupted && key == Stream::corrupted) {
    return block_i == block_j;
  }
  if (query == Stream::clean && key == Stream::corrupted) {
    return false;
  }
  if (query == Stream::corrupted) {
    // w - 1 keys before the block: what the block's first row sees besides itself.
    return block_j < block_i && (rule.window == 0 || s.block(block_i).begin - j < rule.window);
  }
  const bool before = rule.clean == CleanRule::block_causal ? block_j <= block_i : j <= i;
  return before && (rule.window == 0 || i - j < rule.window);
}

std::vector<Sequence> sequences() {
  return {Sequence::uniform(16, 4),
          Sequence::uniform(17, 4),
          Sequence::uniform(13, 1),
          Sequence::uniform(13, 13),
          Sequence::uniform(16, 4, {{0, 5}, {5, 16}}),
          Sequence::uniform(16, 4, {{0, 4}, {4, 16}}),
          Sequence::uniform(20, 3, {{0, 1}, {1, 16}}),
          Sequence::uniform(20, 6, {{2, 9}, {11, 19}}),
          Sequence::with_blocks(20, {0, 1, 2, 9, 10, 17})};
}

std::vector<LayerRule> rules() {
  std::vector<LayerRule> out;
  for (const CleanRule clean : {CleanRule::block_causal, CleanRule::token_causal}) {
    for (const int64_t window : {0, 1, 2, 3, 5, 8, 40}) {
      out.push_back({clean, window});
    }
  }
  return out;
}

}  // namespace

// j in visible(i)  <=>  may_see(i, j), over every pair of both streams.
BOOST_AUTO_TEST_CASE(intervals_equal_the_mask_in_words) {
  for (const Sequence& s : sequences()) {
    for (const LayerRule& rule : rules()) {
      for (const Stream query : {Stream::clean, Stream::corrupted}) {
        for (const Stream key : {Stream::clean, Stream::corrupted}) {
          for (int64_t i = 0; i < s.length(); ++i) {
            for (int64_t j = 0; j < s.length(); ++j) {
              BOOST_REQUIRE_EQUAL(visible(s, rule, query, i, key).contains(j),
                                  may_see(s, rule, query, i, key, j));
            }
          }
        }
      }
    }
  }
}

// The bands of any run of rows hold, for each row, exactly its interval.
BOOST_AUTO_TEST_CASE(bands_hold_the_intervals) {
  for (const Sequence& s : sequences()) {
    for (const LayerRule& rule : rules()) {
      for (const Stream query : {Stream::clean, Stream::corrupted}) {
        for (const Stream key : {Stream::clean, Stream::corrupted}) {
          for (const Interval rows : {Interval{0, s.length()}, Interval{3, 11}, Interval{6, 7}}) {
            const std::vector<Band> bands = visible_bands(s, rule, query, rows, key);
            for (int64_t i = 0; i < s.length(); ++i) {
              std::vector<Interval> seen;
              for (const Band& band : bands) {
                if (band.rows.contains(i) && !band.keys_of(i).empty()) {
                  seen.push_back(band.keys_of(i));
                }
              }
              const Interval expected = visible(s, rule, query, i, key);
              if (!rows.contains(i) || expected.empty()) {
                BOOST_REQUIRE(seen.empty());
              } else {
                BOOST_REQUIRE_EQUAL(seen.size(), 1);
                BOOST_REQUIRE_EQUAL(seen[0], expected);
              }
            }
          }
        }
      }
    }
  }
}

// A window of 4 lets row 9 see 6..9, itself included; the rows of a block at 8 see clean 5..7.
BOOST_AUTO_TEST_CASE(a_window_counts_the_row_itself) {
  const Sequence s = Sequence::uniform(16, 4);
  const LayerRule token{CleanRule::token_causal, 4};
  const LayerRule block{CleanRule::block_causal, 4};
  BOOST_TEST(visible(s, token, Stream::clean, 9, Stream::clean) == (Interval{6, 10}));
  BOOST_TEST(visible(s, block, Stream::clean, 9, Stream::clean) == (Interval{6, 12}));
  for (int64_t row = 8; row < 12; ++row) {
    BOOST_TEST(visible(s, token, Stream::corrupted, row, Stream::clean) == (Interval{5, 8}));
  }
}

// Full layer, block-causal, uniform: M^2 B (B + 1) pairs for both streams together.
BOOST_AUTO_TEST_CASE(pairs_of_a_full_layer) {
  for (const int64_t m : {1, 3, 256}) {
    for (const int64_t b : {1, 2, 7}) {
      const Sequence s = Sequence::uniform(m * b, m);
      const Interval rows{0, s.length()};
      int64_t n = 0;
      n += pairs(visible_bands(s, {}, Stream::corrupted, rows, Stream::corrupted));
      n += pairs(visible_bands(s, {}, Stream::corrupted, rows, Stream::clean));
      n += pairs(visible_bands(s, {}, Stream::clean, rows, Stream::clean));
      BOOST_TEST(n == m * m * b * (b + 1));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
