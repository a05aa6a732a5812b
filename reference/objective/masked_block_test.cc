#include "reference/objective/masked_block.h"

#include <boost/test/unit_test.hpp>

#include "reference/base/error.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(masked_block_suite)

namespace {

// Two documents [0, 5) and [6, 8), token 5 is padding; blocks of 2 restart at each:
// [0,2) [2,4) [4,5) [5,6) [6,8).
TokenSequence example() {
  return {Sequence::uniform(8, 2, {{0, 5}, {6, 8}}),
          {3, 1, 4, 1, 5, 9, 2, 6},
          {1, 0, 1, 1, 1, 1, 1, 1}};
}

// Noise 1/2, 1/4, 1, 1, 1/8.
Draws draws() {
  return {{0.5, 0.25, 1.0, 1.0, 0.125}, {0.5, 0.1, 0.2, 0.25, 0.9, 0.0, 0.1, 0.124}};
}

MaskedBlockOptions options() {
  return {.vocab = 10, .mask_token = 7};
}

// masked = supervised and u < t, strictly; the padding token never, whatever its flag says.
// Supervised: 0 2 3 4 6 7, so N_sup = 6. Masked: 2 (0.2 < 0.25), 4 (0.9 < 1), 6, 7; not 0 (0.5 =
// t), not 1 (unsupervised), not 3 (0.25 = t), not 5 (padding). weight = 1 / (t * N_sup)
BOOST_AUTO_TEST_CASE(masks_and_weighs_as_worked_by_hand) {
  const View view = masked_block(example(), draws(), options());
  const std::vector<int64_t> corrupted = {3, 1, 7, 1, 7, 9, 7, 7};
  BOOST_TEST(view.corrupted_tokens == corrupted, boost::test_tools::per_element());
  const std::vector<LossTerm> terms = {{Stream::corrupted, 2, 4, 4.0 / 6},
                                       {Stream::corrupted, 4, 5, 1.0 / 6},
                                       {Stream::corrupted, 6, 2, 8.0 / 6},
                                       {Stream::corrupted, 7, 6, 8.0 / 6}};
  BOOST_TEST((view.terms == terms));
}

// w_b = 1: every term weighs 1 / N_sup, masked or not counted alike.
BOOST_AUTO_TEST_CASE(weight_one_keeps_the_denominator) {
  MaskedBlockOptions one = options();
  one.weight = BlockWeight::one;
  const View view = masked_block(example(), draws(), one);
  BOOST_TEST(view.terms.size() == 4u);
  for (const LossTerm& term : view.terms) {
    BOOST_TEST(term.weight == 1.0 / 6);
  }
}

// The weight of a block at the least noise is 1000 / N_sup: 1/t must not be dropped or averaged.
BOOST_AUTO_TEST_CASE(least_noise_and_full_noise) {
  const TokenSequence two{Sequence::uniform(4, 2), {1, 2, 3, 4}, {1, 1, 1, 1}};
  const View view = masked_block(two, {{min_noise, 1.0}, {0.0, 0.5, 0.999, 0.5}}, options());
  const std::vector<LossTerm> terms = {{Stream::corrupted, 0, 1, 1000.0 / 4},
                                       {Stream::corrupted, 2, 3, 0.25},
                                       {Stream::corrupted, 3, 4, 0.25}};
  BOOST_TEST((view.terms == terms));
}

// N_sup is a property of the whole example: supervision {1,0}, {3,1} over two halves gives 1 and 4.
BOOST_AUTO_TEST_CASE(denominator_is_global) {
  const auto weights = [](std::vector<uint8_t> supervised) {
    const TokenSequence half{Sequence::uniform(8, 2), {0, 1, 2, 3, 4, 5, 6, 8}, supervised};
    const View view = masked_block(half, {{1, 1, 1, 1}, std::vector<double>(8, 0.5)}, options());
    std::vector<double> out;
    for (const LossTerm& term : view.terms) {
      out.push_back(term.weight);
    }
    return out;
  };
  BOOST_TEST(weights({0, 1, 0, 0, 0, 0, 0, 0}) == std::vector<double>({1.0}));
  BOOST_TEST(weights({1, 1, 1, 0, 0, 0, 0, 1}) == std::vector<double>({0.25, 0.25, 0.25, 0.25}));
  BOOST_CHECK_THROW(weights({0, 0, 0, 0, 0, 0, 0, 0}), InputError);
}

// Nothing masked is a loss of zero, not an error; nothing supervised is an error.
BOOST_AUTO_TEST_CASE(no_masked_token_is_an_empty_sum) {
  const TokenSequence one{Sequence::uniform(2, 2), {1, 2}, {1, 1}};
  BOOST_TEST(masked_block(one, {{0.5}, {0.6, 0.7}}, options()).terms.empty());
}

// Only padding carries a flag: nothing is supervised.
BOOST_AUTO_TEST_CASE(supervised_padding_is_not_supervised) {
  const TokenSequence padded{Sequence::uniform(4, 2, {{0, 2}}), {1, 2, 3, 4}, {0, 0, 1, 1}};
  BOOST_CHECK_THROW(masked_block(padded, {{1, 1}, {0, 0, 0, 0}}, options()), InputError);
}

// With the mask token's logit left out, a masked token equal to it has no probability at all.
BOOST_AUTO_TEST_CASE(an_excluded_label_is_an_error) {
  TokenSequence two{Sequence::uniform(2, 2), {7, 2}, {1, 1}};
  MaskedBlockOptions excluding = options();
  BOOST_TEST(masked_block(two, {{1.0}, {0.5, 0.5}}, excluding).terms.size() == 2u);
  excluding.exclude_mask_logit = true;
  BOOST_CHECK_THROW(masked_block(two, {{1.0}, {0.5, 0.5}}, excluding), InputError);
  two.supervised[0] = 0;
  BOOST_TEST(masked_block(two, {{1.0}, {0.5, 0.5}}, excluding).terms.size() == 1u);
}

BOOST_AUTO_TEST_CASE(bad_inputs_are_errors) {
  TokenSequence outside = example();
  outside.tokens[3] = 10;
  BOOST_CHECK_THROW(masked_block(outside, draws(), options()), InputError);
  outside.tokens[3] = -1;
  BOOST_CHECK_THROW(masked_block(outside, draws(), options()), InputError);
  TokenSequence fewer = example();
  fewer.supervised.pop_back();
  BOOST_CHECK_THROW(masked_block(fewer, draws(), options()), InputError);
  MaskedBlockOptions mask = options();
  mask.mask_token = 10;
  BOOST_CHECK_THROW(masked_block(example(), draws(), mask), InputError);
  Draws zero = draws();
  zero.block[0] = 0;
  BOOST_CHECK_THROW(masked_block(example(), zero, options()), InputError);
  Draws above = draws();
  above.block[0] = 1.5;
  BOOST_CHECK_THROW(masked_block(example(), above, options()), InputError);
  Draws one = draws();
  one.token[7] = 1;
  BOOST_CHECK_THROW(masked_block(example(), one, options()), InputError);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
