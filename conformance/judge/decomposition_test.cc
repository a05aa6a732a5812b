#include "conformance/judge/decomposition.h"

#include <boost/test/unit_test.hpp>

#include "conformance/judge/test_cases.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(decomposition)

namespace {

constexpr LayerRule full{CleanRule::block_causal, 0};
constexpr int clean = static_cast<int>(Stream::clean);
constexpr int corrupted = static_cast<int>(Stream::corrupted);

// L = 16, M = 4: corrupted row 9 sees clean [0,8) and corrupted [8,12).
BOOST_AUTO_TEST_CASE(whole_rows_have_one_part) {
  const Decomposition d = whole(Sequence::uniform(16, 4), full);
  const std::vector<KeyPart> expected{{Stream::clean, {0, 8}, 0}, {Stream::corrupted, {8, 12}, 0}};
  BOOST_TEST((d.parts[corrupted][9] == expected));
  BOOST_TEST((d.gradient_return[clean] == GradientReturn::local));
}

// On 3 ranks, chunks [0,6) [6,11) [11,16).
BOOST_AUTO_TEST_CASE(split_rows_have_a_part_a_rank) {
  const Decomposition d = split_by_owner(Sequence::uniform(16, 4), full, 3);
  const std::vector<KeyPart> expected{{Stream::clean, {0, 6}, 0},
                                      {Stream::clean, {6, 8}, 1},
                                      {Stream::corrupted, {8, 11}, 1},
                                      {Stream::corrupted, {11, 12}, 2}};
  BOOST_TEST((d.parts[corrupted][9] == expected));
  BOOST_TEST(d.row_rank[clean][10] == 1);
  BOOST_TEST((d.gradient_return[clean] == GradientReturn::reduced));
  BOOST_CHECK_THROW(split_by_owner(Sequence::uniform(16, 4), full, 17), InputError);
}

// CSBP on 2 ranks: own block first, then the gathered clean keys; clean gradients alone travel.
BOOST_AUTO_TEST_CASE(parts_follow_the_programs) {
  const Sequence sequence = Sequence::uniform(16, 4);
  const Decomposition d = planned(sequence, full, Scheme::csbp, 2);
  const std::vector<KeyPart> expected{{Stream::corrupted, {8, 12}, 0}, {Stream::clean, {0, 8}, 1}};
  BOOST_TEST((d.parts[corrupted][9] == expected));
  const std::vector<KeyPart> one{{Stream::clean, {0, 12}, 0}};
  BOOST_TEST((d.parts[clean][9] == one));
  BOOST_TEST((d.gradient_return[clean] == GradientReturn::reduced));
  BOOST_TEST((d.gradient_return[corrupted] == GradientReturn::local));
  BOOST_TEST(d.row_rank[corrupted][0] == 0);
  BOOST_TEST(d.row_rank[corrupted][9] == 1);
  const Decomposition window = planned(sequence, {CleanRule::token_causal, 3}, Scheme::csbp, 2);
  BOOST_TEST((window.gradient_return[clean] == GradientReturn::added));
}

// A rank of BP by itself: rows of others belong to nobody, its own number is kept.
BOOST_AUTO_TEST_CASE(one_rank_by_itself) {
  const Sequence sequence = Sequence::uniform(16, 4);
  const auto plans = build_plans(sequence, divide(sequence, Scheme::bp, 2), full);
  const Decomposition d = of_plans(sequence, full, std::span(plans).subspan(1));
  BOOST_TEST(d.ranks == 1);
  BOOST_TEST(d.first_rank == 1);
  BOOST_TEST(d.row_rank[corrupted][0] == -1);
  BOOST_TEST(d.row_rank[corrupted][9] == 0);
  BOOST_TEST((d.gradient_return[clean] == GradientReturn::local));
}

BOOST_AUTO_TEST_CASE(programs_that_attend_something_else) {
  const Sequence sequence = Sequence::uniform(16, 4);
  auto plans = build_plans(sequence, divide(sequence, Scheme::csbp, 2), full);
  for (Step& step : plans[1].forward) {
    if (auto* attend = std::get_if<Attend>(&step)) {
      attend->bands[0].keys.end -= 1;
    }
  }
  BOOST_CHECK_THROW(of_plans(sequence, full, plans), InputError);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
