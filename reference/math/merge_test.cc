#include "reference/math/merge.h"

#include <boost/test/unit_test.hpp>
#include <cfloat>
#include <cstring>
#include <random>

#include "reference/math/exact.h"
#include "reference/math/quad.h"
#include "reference/math/test_support.h"

using namespace bdlm;

BOOST_AUTO_TEST_SUITE(lse_merge)

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double not_a_number = std::numeric_limits<double>::quiet_NaN();

template <class T>
struct State {
  std::vector<T> o;
  T z;
};

template <class T>
State<T> merged(State<T> a, const State<T>& b) {
  merge(static_cast<int64_t>(a.o.size()), a.o.data(), a.z, b.o.data(), b.z);
  return a;
}

template <class T>
bool same(const State<T>& a, const State<T>& b) {
  return std::memcmp(&a.z, &b.z, sizeof(T)) == 0 &&
         std::memcmp(a.o.data(), b.o.data(), a.o.size() * sizeof(T)) == 0;
}

/// Both argument orders, which must agree bit for bit.
template <class T>
State<T> both_ways(const State<T>& a, const State<T>& b) {
  const State<T> ab = merged(a, b);
  BOOST_CHECK(same(ab, merged(b, a)));
  return ab;
}

}  // namespace

// (0, -inf) merged with anything is the other side, bit for bit; two of them are one.
BOOST_AUTO_TEST_CASE(identity) {
  const State<double> empty{{0, 0, 0}, -inf};
  const State<double> garbage{{not_a_number, inf, -1}, -inf};
  const State<double> some{{0.1, -0.0, 1e300}, -3.7};
  BOOST_CHECK(same(both_ways(empty, some), some));
  BOOST_CHECK(same(both_ways(garbage, some), some));
  for (const State<double>& a : {empty, garbage}) {
    for (const State<double>& b : {empty, garbage}) {
      BOOST_CHECK(same(merged(a, b), empty));
    }
  }
}

BOOST_AUTO_TEST_CASE(far_apart) {
  // O = (1e8 e^-100 + 1 e^100) / (e^-100 + e^100) = 1
  const auto r = both_ways<double>({{1e8}, -100}, {{1}, 100});
  BOOST_CHECK_EQUAL(r.o[0], 1);
  BOOST_CHECK_EQUAL(r.z, 100);
  // w = e^-88.8 and e^-200 are representable in double and below float's normal range
  for (const double gap : {88.8, 200.0}) {
    const auto s = both_ways<double>({{0}, 1.5}, {{1}, 1.5 - gap});
    BOOST_CHECK_CLOSE_FRACTION(s.o[0], std::exp(-gap), 1e-13);
    BOOST_CHECK_EQUAL(s.z, 1.5);
  }
  const auto f = both_ways<float>({{1e8f}, -100}, {{1}, 100});
  BOOST_CHECK_EQUAL(f.o[0], 1);
}

// z1 = z2 = z: O = (O1 + O2) / 2, and z + log 2
BOOST_AUTO_TEST_CASE(equal_sums) {
  const auto a = both_ways<double>({{1, 5}, 1e4}, {{3, -1}, 1e4});
  BOOST_CHECK(a.o[0] == 2 && a.o[1] == 2);
  BOOST_CHECK_CLOSE_FRACTION(a.z, 1e4 + std::log(2.0), 1e-15);
  const auto b = both_ways<double>({{1, 5}, -1e30}, {{3, -1}, -1e30});
  BOOST_CHECK(b.o[0] == 2 && b.o[1] == 2 && b.z == -1e30);
}

// A NaN z is never hidden, not even by the identity; +inf is no log-sum-exp.
BOOST_AUTO_TEST_CASE(nan_and_infinity) {
  const State<double> bad{{1, 2}, not_a_number};
  for (const State<double>& other : {State<double>{{0, 0}, -inf}, State<double>{{3, 4}, 0}, bad}) {
    for (const State<double>& r : {merged(bad, other), merged(other, bad)}) {
      BOOST_CHECK(std::isnan(r.z) && std::isnan(r.o[0]) && std::isnan(r.o[1]));
    }
  }
  const State<double> infinite{{1, 2}, inf};
  const State<double> some{{1, 2}, 0};
  BOOST_CHECK_THROW(merged(infinite, some), InputError);
  BOOST_CHECK_THROW(merged(some, infinite), InputError);
  State<double> unchecked = some;
  merge_unchecked(2, unchecked.o.data(), unchecked.z, infinite.o.data(), infinite.z);
  BOOST_CHECK(std::isnan(unchecked.z) && std::isnan(unchecked.o[1]));
}

// |O| <= MAX (1 - 2^-22) on both sides does not overflow: weights are normalised before they
// multiply.
BOOST_AUTO_TEST_CASE(largest_outputs) {
  const float largest = FLT_MAX * (1 - 0x1p-22f);
  for (const float gap : {0.0f, 1e-3f, 0.3f, 1.0f, 20.0f}) {
    const auto r = both_ways<float>({{largest}, 0}, {{largest}, -gap});
    BOOST_CHECK(std::isfinite(r.o[0]));
    BOOST_CHECK_CLOSE_FRACTION(r.o[0], largest, 1e-6);
  }
}

// 4,096 merges of weight 2^-24 with O = 1 into O = 0: every share survives, 4096 * 2^-24 = 2.44e-4.
// In float a sum 1 + 2^-24 would round to 1 and z would never grow, but O must not lose its share.
template <class T>
T many_small_shares() {
  State<T> state{{0}, 0};
  const T z = -24 * std::log(T(2));
  for (int i = 0; i < 4096; ++i) {
    state = both_ways<T>(state, {{1}, z});
  }
  return state.o[0];
}

BOOST_AUTO_TEST_CASE(small_shares) {
  const double exact = 4096 * 0x1p-24 / (1 + 4096 * 0x1p-24);
  BOOST_CHECK_CLOSE_FRACTION(many_small_shares<double>(), exact, 1e-12);
  BOOST_CHECK_CLOSE_FRACTION(many_small_shares<float>(), 2.44e-4f, 2e-3f);
  const auto one = both_ways<float>({{0}, 0}, {{1}, -24 * std::log(2.0f)});
  BOOST_CHECK_CLOSE_FRACTION(one.o[0], 0x1p-24f, 1e-5f);
}

// Scores -60000 and -60001: softmax (0.731, 0.269).
BOOST_AUTO_TEST_CASE(very_negative_scores) {
  const auto r = both_ways<double>({{1, 0}, -60000}, {{0, 1}, -60001});
  BOOST_CHECK_CLOSE_FRACTION(r.o[0], 0.7310585786300049, 1e-14);
  BOOST_CHECK_CLOSE_FRACTION(r.o[1], 0.2689414213699951, 1e-14);
  BOOST_CHECK_CLOSE_FRACTION(r.z, -60000 + std::log1p(std::exp(-1.0)), 1e-15);
}

// merge(a, b) = merge(b, a), bit for bit, over random states with gaps of every size.
BOOST_AUTO_TEST_CASE(commutative) {
  std::mt19937_64 engine(11);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 100000; ++i) {
    const double spread = std::exp2(static_cast<double>(i % 21) - 10);
    const double z = normal(engine) * 10;
    State<double> a{{normal(engine), normal(engine)}, z};
    State<double> b{{normal(engine), normal(engine)}, i % 7 == 0 ? z : z + spread * normal(engine)};
    BOOST_REQUIRE(same(merged(a, b), merged(b, a)));
    const auto f = [](const State<double>& s) {
      return State<float>{{float(s.o[0]), float(s.o[1])}, float(s.z)};
    };
    BOOST_REQUIRE(same(merged(f(a), f(b)), merged(f(b), f(a))));
  }
}

// A chain of n merges of single keys = one softmax over n scores, in quadruple precision.
BOOST_AUTO_TEST_CASE(chains) {
  for (const int64_t n : {8, 64, 512}) {
    for (const double size : {1.0, 30.0}) {
      const test::Vector s = test::gaussian(n, 1, size), v = test::gaussian(n, 2);
      State<double> state{{0}, -inf};
      Quad sum(0), o(0), terms(0);
      for (int64_t i = 0; i < n; ++i) {
        state = both_ways<double>(state, {{v[i]}, s[i]});
        const Quad w = exp(Quad(s[i]));
        sum += w;
        o += w * Quad(v[i]);
        terms += w * Quad(std::abs(v[i]));
      }
      const double bound = 0x1p-53 * (16 + 4 * 4 * size + 4.0 * static_cast<double>(n));
      BOOST_CHECK_LE(std::abs(static_cast<double>(Quad(state.o[0]) - o / sum)),
                     bound * static_cast<double>(terms / sum));
      BOOST_CHECK_LE(std::abs(static_cast<double>(Quad(state.z) - log(sum))), bound);
    }
  }
}

// In rationals a chain of merges equals the direct weighted mean, in any order.
BOOST_AUTO_TEST_CASE(exact_chains) {
  State<Exact> up{{0}, 0}, down{{0}, 0};
  Exact l(0), o(0);
  const auto key = [](int64_t i) { return State<Exact>{{Exact(i * i - 30, 7)}, Exact(i % 5 + 1)}; };
  for (int64_t i = 0; i < 12; ++i) {
    up = merged(up, key(i));
    down = merged(key(11 - i), down);
    l += key(i).z;
    o += key(i).z * key(i).o[0];
  }
  BOOST_CHECK(up.z == l && down.z == l);
  BOOST_CHECK(up.o[0] == o / l && down.o[0] == o / l);
}

BOOST_AUTO_TEST_CASE(rows_are_merged_one_by_one) {
  test::Vector o1 = test::gaussian(6, 1), z1 = {0.5, -inf, 2}, o2 = test::gaussian(6, 2);
  const test::Vector z2 = {1.5, 1, -inf};
  test::Vector o = o1, z = z1;
  merge_rows(3, 2, o.data(), z.data(), o2.data(), z2.data());
  for (int64_t r = 0; r < 3; ++r) {
    const auto one =
        merged<double>({{o1[2 * r], o1[2 * r + 1]}, z1[r]}, {{o2[2 * r], o2[2 * r + 1]}, z2[r]});
    BOOST_CHECK(one.o[0] == o[2 * r] && one.o[1] == o[2 * r + 1] && one.z == z[r]);
  }
}

BOOST_AUTO_TEST_SUITE_END()
