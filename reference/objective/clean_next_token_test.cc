#include "reference/objective/clean_next_token.h"

#include <boost/test/unit_test.hpp>

#include "reference/base/error.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(clean_next_token_suite)

namespace {

constexpr LayerRule token_causal{CleanRule::token_causal, 0};
constexpr LayerRule sliding{CleanRule::token_causal, 3};

// Documents [0, 3) and [3, 6), token 6 padding.
TokenSequence example() {
  return {Sequence::uniform(7, 2, {{0, 3}, {3, 6}}), {3, 1, 4, 1, 5, 9, 2}, {1, 1, 0, 1, 1, 1, 1}};
}

// Scored: tokens 1, 4, 5. Not 0 and 3 (no predecessor in the document), 2 (unsupervised), 6
// (padding). weight = lambda / 3.
BOOST_AUTO_TEST_CASE(terms_as_worked_by_hand) {
  const std::vector<LayerRule> rules = {token_causal, sliding};
  const auto terms = clean_next_token(example(), rules, {.vocab = 10, .weight = 0.75});
  const std::vector<LossTerm> expected = {
      {Stream::clean, 0, 1, 0.25}, {Stream::clean, 3, 5, 0.25}, {Stream::clean, 4, 9, 0.25}};
  BOOST_TEST((terms == expected));
}

// One block-causal layer is enough to see the answer.
BOOST_AUTO_TEST_CASE(block_causal_rows_are_an_error) {
  const std::vector<LayerRule> mixed = {token_causal, LayerRule{CleanRule::block_causal, 0}};
  BOOST_CHECK_THROW(clean_next_token(example(), mixed, {.vocab = 10}), InputError);
}

BOOST_AUTO_TEST_CASE(bad_inputs_are_errors) {
  const std::vector<LayerRule> rules = {token_causal};
  TokenSequence none = example();
  none.supervised = {1, 0, 0, 1, 0, 0, 1};
  BOOST_CHECK_THROW(clean_next_token(none, rules, {.vocab = 10}), InputError);
  BOOST_CHECK_THROW(clean_next_token(example(), rules, {.vocab = 9}), InputError);
  BOOST_CHECK_THROW(clean_next_token(example(), rules, {.vocab = 10, .excluded_logit = 5}),
                    InputError);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
