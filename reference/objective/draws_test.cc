#include "reference/objective/draws.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "reference/base/error.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(draws_suite)

namespace {

// s_n = (u + n / N) mod 1
BOOST_AUTO_TEST_CASE(antithetic_draws_wrap) {
  BOOST_TEST(antithetic_draws(0.625, 0, 4, 4) == std::vector<double>({0.625, 0.875, 0.125, 0.375}),
             boost::test_tools::per_element());
  // The second of two sequences of two blocks continues the batch.
  BOOST_TEST(antithetic_draws(0.625, 2, 2, 4) == std::vector<double>({0.125, 0.375}),
             boost::test_tools::per_element());
}

// t = eps + (1 - eps) s covers [eps, 1].
BOOST_AUTO_TEST_CASE(noise_spans_its_range) {
  BOOST_TEST(noise_of(0) == 1e-3);
  BOOST_TEST(noise_of(1) == 1.0);
  BOOST_TEST(noise_of(0.5) == 0.5005);
}

// N antithetic draws lie one in each of N equal parts of the unit interval.
BOOST_AUTO_TEST_CASE(antithetic_noise_is_evenly_spread) {
  const Sequence sequence = Sequence::uniform(64, 4);
  for (uint64_t seed = 1; seed < 6; ++seed) {
    Draws draws = masked_block_draws(sequence, {.seed = seed});
    BOOST_TEST(draws.block.size() == 16u);
    BOOST_TEST(draws.token.size() == 64u);
    std::sort(draws.block.begin(), draws.block.end());
    for (int64_t n = 0; n < 16; ++n) {
      BOOST_TEST(draws.block[n] >= noise_of(n / 16.0) - 1e-12);
      BOOST_TEST(draws.block[n] <= noise_of((n + 1) / 16.0) + 1e-12);
    }
    check(draws, sequence);
  }
}

// Uniform draws: mean 1/2 within 5 standard deviations of the mean, 1 / sqrt(12 n); all different.
BOOST_AUTO_TEST_CASE(independent_draws_are_uniform) {
  const Sequence sequence = Sequence::uniform(4096, 1);
  Draws draws = masked_block_draws(sequence, {.seed = 3, .sampling = BlockSampling::independent});
  for (std::vector<double>* values : {&draws.block, &draws.token}) {
    double mean = 0;
    for (const double x : *values) {
      mean += x / 4096;
    }
    BOOST_TEST(std::abs(mean - 0.5) < 5 / std::sqrt(12.0 * 4096));
    std::sort(values->begin(), values->end());
    BOOST_TEST((std::adjacent_find(values->begin(), values->end()) == values->end()));
  }
  BOOST_TEST(draws.block != draws.token, boost::test_tools::per_element());
}

// Draws are a function of the seed and of the place in the batch, and of nothing else.
BOOST_AUTO_TEST_CASE(draws_follow_seed_and_place) {
  const Sequence sequence = Sequence::uniform(16, 4);
  const DrawOptions first{.seed = 9, .first_block = 0, .batch_blocks = 8, .sequence = 0};
  const DrawOptions second{.seed = 9, .first_block = 4, .batch_blocks = 8, .sequence = 1};
  BOOST_TEST(masked_block_draws(sequence, first).token ==
             masked_block_draws(sequence, first).token);
  BOOST_TEST(
      (masked_block_draws(sequence, first).token != masked_block_draws(sequence, second).token));
  std::vector<double> batch = masked_block_draws(sequence, first).block;
  const std::vector<double> rest = masked_block_draws(sequence, second).block;
  batch.insert(batch.end(), rest.begin(), rest.end());
  std::sort(batch.begin(), batch.end());
  for (size_t n = 1; n < batch.size(); ++n) {
    BOOST_TEST(std::abs(batch[n] - batch[n - 1] - (1 - min_noise) / 8) < 1e-12);
  }
  BOOST_TEST((complementary_draws(sequence, {.seed = 1}).block !=
              complementary_draws(sequence, {.seed = 2}).block));
}

BOOST_AUTO_TEST_CASE(bad_draws_are_errors) {
  const Sequence sequence = Sequence::uniform(4, 2);
  BOOST_CHECK_THROW(check({{0.5}, {0, 0, 0, 0}}, sequence), InputError);
  BOOST_CHECK_THROW(check({{0.5, 0.5}, {0, 0, 0}}, sequence), InputError);
  BOOST_CHECK_THROW(check({{0.5, std::nan("")}, {0, 0, 0, 0}}, sequence), InputError);
  BOOST_CHECK_THROW(antithetic_draws(0.5, 3, 2, 4), InputError);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
