#include "reference/layout/interval.h"

#include <boost/test/unit_test.hpp>
#include <random>
#include <set>

namespace bdlm {
BOOST_AUTO_TEST_SUITE(interval)

namespace {

/// Any intervals within [0, 40), some of them empty.
std::vector<Interval> random_parts(std::mt19937_64& random) {
  std::vector<Interval> parts(random() % 6);
  for (Interval& part : parts) {
    part.begin = static_cast<int64_t>(random() % 40);
    part.end = part.begin + static_cast<int64_t>(random() % 9) - 1;
  }
  return parts;
}

std::set<int64_t> points(const std::vector<Interval>& parts) {
  std::set<int64_t> out;
  for (const Interval& part : parts) {
    for (int64_t x = part.begin; x < part.end; ++x) {
      out.insert(x);
    }
  }
  return out;
}

bool canonical(const IntervalSet& set) {
  for (size_t i = 0; i < set.size(); ++i) {
    if (set[i].empty() || (i > 0 && set[i].begin <= set[i - 1].end)) {
      return false;
    }
  }
  return true;
}

}  // namespace

// unite, subtract and intersect agree with sets of points, and give canonical form.
BOOST_AUTO_TEST_CASE(set_operations_equal_those_on_points) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<Interval> pa = random_parts(random);
    const std::vector<Interval> pb = random_parts(random);
    const IntervalSet a = unite(pa);
    const IntervalSet b = unite(pb);
    std::set<int64_t> both;
    std::set<int64_t> only;
    for (const int64_t x : points(pa)) {
      (points(pb).count(x) != 0 ? both : only).insert(x);
    }
    BOOST_TEST(canonical(a));
    BOOST_TEST((points(a) == points(pa)));
    BOOST_TEST(canonical(subtract(a, b)));
    BOOST_TEST((points(subtract(a, b)) == only));
    BOOST_TEST(canonical(intersect(a, b)));
    BOOST_TEST((points(intersect(a, b)) == both));
    BOOST_TEST(size(a) == static_cast<int64_t>(points(pa).size()));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
