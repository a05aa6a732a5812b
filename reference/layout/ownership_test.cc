#include "reference/layout/ownership.h"

#include <boost/test/unit_test.hpp>
#include <functional>
#include <numeric>

#include "reference/base/error.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(ownership)

namespace {

using Blocks = std::vector<std::vector<int64_t>>;

Blocks assign(int64_t blocks, int ranks, BlockAssignment how = BlockAssignment::dual_end) {
  return assign_blocks(Sequence::uniform(blocks, 1), Scheme::csbp, ranks, how, {});
}

}  // namespace

BOOST_AUTO_TEST_CASE(chunks_are_balanced_and_cover) {
  BOOST_TEST(balanced_chunk(10, 4, 0) == (Interval{0, 3}));
  BOOST_TEST(balanced_chunk(10, 4, 1) == (Interval{3, 6}));
  BOOST_TEST(balanced_chunk(10, 4, 2) == (Interval{6, 8}));
  BOOST_TEST(balanced_chunk(10, 4, 3) == (Interval{8, 10}));
  BOOST_TEST(balanced_chunk(2, 4, 3).empty());
}

BOOST_AUTO_TEST_CASE(dual_end_deals_pairs_in_runs) {
  BOOST_TEST((assign(4, 2) == Blocks{{0, 3}, {1, 2}}));
  BOOST_TEST((assign(8, 2) == Blocks{{0, 1, 6, 7}, {2, 3, 4, 5}}));
  // Three pairs on two ranks: the first takes two.
  BOOST_TEST((assign(6, 2) == Blocks{{0, 1, 4, 5}, {2, 3}}));
  // The middle block goes to the rank with fewest rows, the lowest of equals.
  BOOST_TEST((assign(5, 2) == Blocks{{0, 2, 4}, {1, 3}}));
  BOOST_TEST((assign(7, 2) == Blocks{{0, 1, 5, 6}, {2, 3, 4}}));
  BOOST_TEST((assign(3, 2) == Blocks{{0, 2}, {1}}));
  // Fewer pairs than ranks: single blocks, from the last on.
  BOOST_TEST((assign(4, 3) == Blocks{{0, 3}, {2}, {1}}));
  BOOST_TEST((assign(3, 3) == Blocks{{2}, {1}, {0}}));
}

// The sets of a decomposition, for B around P and 2P, odd, short and long blocks.
BOOST_AUTO_TEST_CASE(every_row_is_counted_once) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int64_t blocks :
         {ranks, ranks + 1, 2 * ranks - 1, 2 * ranks, 2 * ranks + 1, 2 * ranks + 2, 37}) {
      for (const int64_t size : {1, 5}) {
        if (blocks < ranks) {
          continue;
        }
        const Sequence s = Sequence::uniform(blocks * size - (size > 1 ? 2 : 0), size);
        for (const Scheme scheme : {Scheme::cp, Scheme::bp, Scheme::csbp}) {
          for (const BlockAssignment how : {BlockAssignment::dual_end, BlockAssignment::contiguous,
                                            BlockAssignment::balanced}) {
            const Ownership own = divide(s, scheme, ranks, {how, false, {}});
            for (const Stream stream : {Stream::clean, Stream::corrupted}) {
              std::vector<int> seen(s.length(), 0);
              for (const RowSet& rows : own.counted) {
                for (const Interval& part : rows.rows(stream)) {
                  for (int64_t i = part.begin; i < part.end; ++i) {
                    ++seen[i];
                  }
                }
              }
              BOOST_REQUIRE(std::count(seen.begin(), seen.end(), 1) == s.length());
            }
            for (int r = 0; r < ranks; ++r) {
              BOOST_REQUIRE(scheme == Scheme::cp || !own.blocks[r].empty());
              // A rank holds what it counts, except clean rows under BP without a clean loss.
              for (const Segment& part : own.counted[r].segments()) {
                BOOST_REQUIRE((scheme == Scheme::bp && part.stream == Stream::clean) ||
                              own.rows[r].contains(part.stream, part.rows));
              }
            }
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(bp_holds_the_prefix_of_its_last_block) {
  const Sequence s = Sequence::uniform(16, 4);
  const Ownership own = divide(s, Scheme::bp, 2);
  BOOST_TEST((own.rows[0].rows(Stream::clean) == IntervalSet{{0, 12}}));
  BOOST_TEST((own.rows[1].rows(Stream::clean) == IntervalSet{{0, 8}}));
  // With a clean loss the prefix reaches over the rank's own zigzag chunks, [12,16) and [8,12).
  const Ownership loss = divide(s, Scheme::bp, 2, {BlockAssignment::dual_end, true, {}});
  BOOST_TEST((loss.rows[0].rows(Stream::clean) == IntervalSet{{0, 16}}));
  BOOST_TEST((loss.rows[1].rows(Stream::clean) == IntervalSet{{0, 12}}));
}

/// The largest number of attended pairs of a rank, all layers together.
int64_t largest_load(const Sequence& s, const Ownership& own, const std::vector<LayerRule>& rules) {
  int64_t most = 0;
  for (const RowSet& rows : own.rows) {
    int64_t load = 0;
    for (const LayerRule& rule : rules) {
      for (const Segment& part : rows.segments()) {
        for (const Stream key : {Stream::clean, Stream::corrupted}) {
          load += pairs(visible_bands(s, rule, part.stream, part.rows, key));
        }
      }
    }
    most = std::max(most, load);
  }
  return most;
}

// max load of balanced <= max load of dual_end, clean rows and all layers counted, and strictly
// less where pairs do not divide evenly.
BOOST_AUTO_TEST_CASE(balanced_is_never_worse) {
  const std::vector<std::vector<LayerRule>> models{
      {{CleanRule::block_causal, 0}},
      {{CleanRule::token_causal, 0}},
      {{CleanRule::token_causal, 9}, {CleanRule::token_causal, 9}, {CleanRule::token_causal, 0}},
      {{CleanRule::block_causal, 30}}};
  for (const Scheme scheme : {Scheme::bp, Scheme::csbp}) {
    bool better = false;
    for (const std::vector<LayerRule>& rules : models) {
      for (int ranks = 1; ranks <= 7; ++ranks) {
        for (int64_t blocks = ranks; blocks < 24; ++blocks) {
          const Sequence s = Sequence::uniform(4 * blocks - 1, 4, {{0, 2}, {2, 4 * blocks - 1}});
          const auto load = [&](BlockAssignment how) {
            return largest_load(s, divide(s, scheme, ranks, {how, false, rules}), rules);
          };
          const int64_t dual = load(BlockAssignment::dual_end);
          const int64_t even = load(BlockAssignment::balanced);
          BOOST_REQUIRE_LE(even, dual);
          better = better || even < dual;
        }
      }
    }
    BOOST_TEST(better);
  }
}

BOOST_AUTO_TEST_CASE(the_halo_is_what_is_seen_and_not_held) {
  // Chunks of 4: rank 0 holds [0,4) and [12,16), rank 1 [4,12). w = 3, token-causal.
  const Sequence s = Sequence::uniform(16, 2);
  const Ownership own = divide(s, Scheme::csbp, 2);
  const LayerRule token{CleanRule::token_causal, 3};
  BOOST_TEST((halo(s, token, own.rows[0]) == IntervalSet{{10, 12}}));
  BOOST_TEST((halo(s, token, own.rows[1]) == IntervalSet{{2, 4}}));
  // Block-causal rows see to the end of their block: with blocks of 3 a halo has a right side.
  const Sequence odd = Sequence::uniform(15, 3);
  const Ownership uneven = divide(odd, Scheme::csbp, 2);
  BOOST_TEST((uneven.rows[0].rows(Stream::clean) == IntervalSet{{0, 4}, {12, 15}}));
  const IntervalSet seen = halo(odd, {CleanRule::block_causal, 3}, uneven.rows[0]);
  BOOST_TEST((intersect(seen, IntervalSet{{4, 6}}) == IntervalSet{{4, 6}}));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_divided_is_an_error) {
  const Sequence s = Sequence::uniform(8, 4);
  BOOST_CHECK_THROW(divide(s, Scheme::csbp, 3), InputError);
  BOOST_CHECK_THROW(divide(s, Scheme::bp, 3), InputError);
  BOOST_CHECK_THROW(divide(s, Scheme::cp, 0), InputError);
  BOOST_CHECK_THROW(divide(s, Scheme::monolithic, 2), InputError);
  BOOST_CHECK_THROW(parse_scheme("ring"), InputError);
  BOOST_TEST((parse_scheme("csbp") == Scheme::csbp));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
