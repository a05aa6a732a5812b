#include "reference/layout/band.h"

#include <boost/test/unit_test.hpp>
#include <random>
#include <set>
#include <utility>

namespace bdlm {
BOOST_AUTO_TEST_SUITE(band)

namespace {

Band random_band(std::mt19937_64& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  Band band;
  band.rows.begin = below(20);
  band.rows.end = band.rows.begin + below(20);
  band.keys.begin = below(20);
  band.keys.end = band.keys.begin + below(20);
  if (below(2) == 0) {
    band.begin_offset = below(20) - 15;
  }
  if (below(2) == 0) {
    band.end_offset = below(20) - 5;
  }
  return band;
}

std::multiset<std::pair<int64_t, int64_t>> enumerate(const std::vector<Band>& bands) {
  std::multiset<std::pair<int64_t, int64_t>> out;
  for (const Band& band : bands) {
    for (int64_t row = band.rows.begin; row < band.rows.end; ++row) {
      for (int64_t key = band.keys_of(row).begin; key < band.keys_of(row).end; ++key) {
        out.emplace(row, key);
      }
    }
  }
  return out;
}

}  // namespace

// pairs() = the number of pairs counted one by one.
BOOST_AUTO_TEST_CASE(pairs_are_counted_in_closed_form) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 5000; ++round) {
    const Band band = random_band(random);
    BOOST_REQUIRE_EQUAL(band.pairs(), static_cast<int64_t>(enumerate({band}).size()));
  }
}

// trim changes no pair and leaves no row at either end that sees nothing.
BOOST_AUTO_TEST_CASE(trim_keeps_the_pairs) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 5000; ++round) {
    const Band band = random_band(random);
    const Band trimmed = trim(band);
    BOOST_REQUIRE((enumerate({band}) == enumerate({trimmed})));
    if (!trimmed.rows.empty()) {
      BOOST_REQUIRE(!trimmed.keys_of(trimmed.rows.begin).empty());
      BOOST_REQUIRE(!trimmed.keys_of(trimmed.rows.end - 1).empty());
    }
  }
}

// restrict_keys keeps the pairs whose key is in the set, each once.
BOOST_AUTO_TEST_CASE(restriction_keeps_the_pairs_of_its_keys) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<Band> bands{random_band(random), random_band(random)};
    const IntervalSet keys = unite({{2, 5}, {9, 9 + static_cast<int64_t>(random() % 7)}, {20, 33}});
    auto expected = enumerate(bands);
    std::erase_if(expected, [&](const auto& pair) {
      return intersect(IntervalSet{{pair.second, pair.second + 1}}, keys).empty();
    });
    BOOST_REQUIRE((enumerate(restrict_keys(bands, keys)) == expected));
  }
}

// The products behind a count of pairs pass 2^31 long before the counts end: L = 2^31 rows of one
// causal triangle are L (L + 1) / 2 pairs.
BOOST_AUTO_TEST_CASE(counts_do_not_wrap) {
  const int64_t n = int64_t{1} << 31;
  const Band causal{Stream::clean, {0, n}, Stream::clean, {0, n}, Band::no_begin, 1};
  BOOST_TEST(causal.pairs() == n / 2 * (n + 1));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
