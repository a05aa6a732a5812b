#include "reference/objective/complementary_views.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>

#include "reference/base/error.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(complementary_views_suite)

namespace {

// Documents [0, 5) and [5, 8); blocks of 2 restart at each: [0,2) [2,4) [4,5) [5,7) [7,8).
// Supervised: all but token 3.
TokenSequence example() {
  return {Sequence::uniform(8, 2, {{0, 5}, {5, 8}}),
          {3, 1, 4, 1, 5, 9, 2, 6},
          {1, 1, 1, 0, 1, 1, 1, 1}};
}

ComplementaryViewsOptions options() {
  return {.vocab = 10, .mask_token = 7};
}

// Masked in the first view: u < p. With t = 1 (p = 1) or t = 0 (p = 1e-3):
//   block [0,2) p = 1:    tokens 0, 1 in A          block [2,4) p = 1e-3: 2 in B (3 unsupervised)
//   block [4,5) p = 1:    4 in A                    block [5,7) p = 1e-3: 5 in A (u = 0), 6 in B
//   block [7,8) p = 1:    7 in A
// Row i scores token i + 1: token 1 by row 0, 2 by row 1, 4 by row 3, 6 by row 5, 7 by row 6;
// tokens 0 and 5 begin documents and are scored by nobody. Denominator 5.
BOOST_AUTO_TEST_CASE(views_and_shift_as_worked_by_hand) {
  const auto views = complementary_views(
      example(), {{1, 0, 1, 0, 1}, {0.9, 0.2, 0.001, 0.0, 0.7, 0.0, 0.5, 0.999}}, options());
  const std::vector<int64_t> a = {7, 7, 4, 1, 7, 7, 2, 7};
  const std::vector<int64_t> b = {3, 1, 7, 1, 5, 9, 7, 6};
  BOOST_TEST(views[0].corrupted_tokens == a, boost::test_tools::per_element());
  BOOST_TEST(views[1].corrupted_tokens == b, boost::test_tools::per_element());
  const std::vector<LossTerm> terms_a = {{Stream::corrupted, 0, 1, 0.2},
                                         {Stream::corrupted, 3, 5, 0.2},
                                         {Stream::corrupted, 6, 6, 0.2}};
  const std::vector<LossTerm> terms_b = {{Stream::corrupted, 1, 4, 0.2},
                                         {Stream::corrupted, 5, 2, 0.2}};
  BOOST_TEST((views[0].terms == terms_a));
  BOOST_TEST((views[1].terms == terms_b));
}

// For any draws: the views' masks are disjoint, their union is the supervised tokens, and every
// supervised token with a predecessor is scored once: sum of weights = 1.
BOOST_AUTO_TEST_CASE(views_complete_each_other) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const TokenSequence tokens = example();
    const auto views = complementary_views(
        tokens, complementary_draws(tokens.sequence, {.seed = seed}), options());
    std::multiset<int64_t> scored;
    double total = 0;
    for (const View& view : views) {
      for (const LossTerm& term : view.terms) {
        BOOST_TEST(view.corrupted_tokens[term.row + 1] == 7);
        BOOST_TEST(term.label == tokens.tokens[term.row + 1]);
        scored.insert(term.row + 1);
        total += term.weight;
      }
    }
    BOOST_TEST(scored == std::multiset<int64_t>({1, 2, 4, 6, 7}), boost::test_tools::per_element());
    BOOST_TEST(std::abs(total - 1) < 1e-15);
    for (int64_t i = 0; i < 8; ++i) {
      const int masked = (views[0].corrupted_tokens[i] == 7) + (views[1].corrupted_tokens[i] == 7);
      BOOST_TEST(masked == tokens.supervised[i]);
    }
  }
}

// Supervised tokens that all begin documents leave nothing to score.
BOOST_AUTO_TEST_CASE(only_first_tokens_supervised_is_an_error) {
  TokenSequence first = example();
  first.supervised = {1, 0, 0, 0, 0, 1, 0, 0};
  const Draws draws{{1, 1, 1, 1, 1}, std::vector<double>(8, 0.5)};
  BOOST_CHECK_THROW(complementary_views(first, draws, options()), InputError);
  first.supervised = {1, 0, 0, 0, 0, 1, 1, 0};
  BOOST_TEST(complementary_views(first, draws, options())[0].terms.at(0).weight == 1.0);
  first.supervised = std::vector<uint8_t>(8, 0);
  BOOST_CHECK_THROW(complementary_views(first, draws, options()), InputError);
}

BOOST_AUTO_TEST_CASE(bad_inputs_are_errors) {
  const Draws draws{{1, 1, 1, 1, 1}, std::vector<double>(8, 0.5)};
  TokenSequence outside = example();
  outside.tokens[0] = 11;
  BOOST_CHECK_THROW(complementary_views(outside, draws, options()), InputError);
  BOOST_CHECK_THROW(complementary_views(example(), {{1}, draws.token}, options()), InputError);
  ComplementaryViewsOptions excluding = options();
  excluding.mask_token = 6;  // the label of row 6
  BOOST_TEST(complementary_views(example(), draws, excluding)[0].terms.size() == 5u);
  excluding.exclude_mask_logit = true;
  BOOST_CHECK_THROW(complementary_views(example(), draws, excluding), InputError);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
