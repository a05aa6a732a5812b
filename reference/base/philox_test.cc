#include "reference/base/philox.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>
#include <vector>

namespace bdlm {
BOOST_AUTO_TEST_SUITE(philox)

namespace {

// The published known answers of Philox4x32-10: counter and key all zeros, all ones, digits of pi.
static_assert(philox4x32({0, 0, 0, 0}, {0, 0}) ==
              PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});

BOOST_AUTO_TEST_CASE(known_answers) {
  const uint32_t ones = 0xffffffff;
  BOOST_TEST((philox4x32({0, 0, 0, 0}, {0, 0}) ==
              PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  BOOST_TEST((philox4x32({ones, ones, ones, ones}, {ones, ones}) ==
              PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  BOOST_TEST(
      (philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
       PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// counter = (element low, element high, tensor, stream), key = (seed low, seed high)
BOOST_AUTO_TEST_CASE(counter_and_key_layout) {
  const Philox p(0x299f31d0a4093822, 0x13198a2e, 0x03707344);
  BOOST_TEST(
      (p.words(0x85a308d3243f6a88) == PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// x = (sum of low halves - 131070) / 32768; mean 0, variance 4 (2^32 - 1) / 12 / 2^30 = 1.3333
BOOST_AUTO_TEST_CASE(gaussian_like_values) {
  BOOST_TEST(gaussian_like({0, 0, 0, 0}) == -131070.0 / 32768);
  BOOST_TEST(gaussian_like({0xffffffff, 0xffff, 0xabcdffff, 0xffff}) == 131070.0 / 32768);
  BOOST_TEST(gaussian_like({131070 / 2, 131070 / 2, 0xffff0000, 0x10000}) == 0.0);

  const Philox p(7, 3, 1);
  const int n = 200000;
  double sum = 0, squares = 0, fourth = 0;
  for (int i = 0; i < n; ++i) {
    const double x = p.gaussian(i);
    BOOST_REQUIRE(static_cast<double>(static_cast<float>(x)) == x);
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  const double variance = 4.0 / 3;
  BOOST_TEST(std::abs(sum / n) < 5 * std::sqrt(variance / n));
  // Var(x^2) = (kurtosis - 1) variance^2, kurtosis of a sum of four uniforms 3 - 1.2/4 = 2.7
  BOOST_TEST(std::abs(squares / n - variance) < 5 * variance * std::sqrt(1.7 / n));
  BOOST_TEST(std::abs(fourth / n / (variance * variance) - 2.7) < 0.1);
}

// u = floor(2^53 v) / 2^53 for v in [0, 1): the ends are 0 and 1 - 2^-53
BOOST_AUTO_TEST_CASE(uniform_values) {
  BOOST_TEST(uniform53({0, 0, 1, 2}) == 0.0);
  BOOST_TEST(uniform53({0xffffffff, 0xffffffff, 0, 0}) == 1 - 0x1p-53);
  BOOST_TEST(uniform53({0x80000000, 0, 0, 0}) == 0.5);
  BOOST_TEST(uniform53({32, 0, 0, 0}) == 0x1p-27);
  BOOST_TEST(uniform53({0, 64, 0, 0}) == 0x1p-53);
  BOOST_TEST(uniform53({31, 63, 0, 0}) == 0.0);

  const Philox p(11);
  const int n = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double u = p.uniform(i);
    sum += u;
    squares += u * u;
  }
  BOOST_TEST(std::abs(sum / n - 0.5) < 5 * std::sqrt(1.0 / 12 / n));
  BOOST_TEST(std::abs(squares / n - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / n));
}

// chi^2 over n cells has mean n - 1 and variance 2 (n - 1)
BOOST_AUTO_TEST_CASE(integers_below_n_are_even) {
  const Philox p(5, 2);
  for (const int64_t n : {1, 2, 3, 7, 100}) {
    std::vector<int64_t> count(n, 0);
    const int64_t draws = 100000;
    for (int64_t i = 0; i < draws; ++i) {
      const int64_t x = p.below(i, n);
      BOOST_REQUIRE(0 <= x);
      BOOST_REQUIRE(x < n);
      ++count[x];
    }
    double chi2 = 0;
    const double expected = static_cast<double>(draws) / static_cast<double>(n);
    for (const int64_t c : count) {
      chi2 += (static_cast<double>(c) - expected) * (static_cast<double>(c) - expected) / expected;
    }
    const auto dof = static_cast<double>(n - 1);
    BOOST_TEST(chi2 <= dof + 6 * std::sqrt(2 * dof));
  }
}

// n = 3 * 2^61, so 2^64 = 2n + 2^62 and a quarter of all first draws is refused. Plain r mod n
// would fall below 2^62 with probability 3 * 2^62 / 2^64 = 3/4; the fair value is 2^62 / n = 2/3.
BOOST_AUTO_TEST_CASE(refusal_removes_the_bias) {
  const int64_t n = int64_t{3} << 61;
  const Philox p(9);
  int low = 0;
  int refused = 0;
  const int draws = 40000;
  for (int i = 0; i < draws; ++i) {
    const PhiloxWords w = p.words(i);
    refused += ((uint64_t{w[1]} << 32 | w[0]) < (uint64_t{1} << 62)) ? 1 : 0;
    low += p.below(i, n) < (int64_t{1} << 62) ? 1 : 0;
  }
  BOOST_TEST(std::abs(refused / double(draws) - 0.25) < 0.02);
  BOOST_TEST(std::abs(low / double(draws) - 2.0 / 3) < 0.02);
}

BOOST_AUTO_TEST_CASE(seeds_tensors_streams_and_elements_differ) {
  std::set<PhiloxWords> seen;
  for (const uint64_t seed : {0ull, 1ull, 1ull << 32}) {
    for (const uint32_t tensor : {0u, 1u}) {
      for (const uint32_t stream : {0u, 1u}) {
        for (const uint64_t element : {0ull, 1ull, 1ull << 32}) {
          seen.insert(Philox(seed, tensor, stream).words(element));
        }
      }
    }
  }
  BOOST_TEST(seen.size() == 3u * 2u * 2u * 3u);
}

BOOST_AUTO_TEST_CASE(an_empty_range_is_an_error) {
  BOOST_CHECK_THROW(Philox(1).below(0, 0), InputError);
  BOOST_CHECK_THROW(Philox(1).below(0, -3), InputError);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
