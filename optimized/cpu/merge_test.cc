// The merge, by the cases at which merges go wrong.

#include "optimized/cpu/merge.h"

#include <cmath>

#include "conformance/judge/rounding.h"
#include "optimized/cpu/backend.h"
#include "optimized/cpu/plugin_driver_test.h"
#include "reference/base/philox.h"
#include "reference/math/merge.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(merge_states)

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

/// A state of one row.
struct State {
  std::vector<float> o;
  float z;
};

State merged(const State& a, const State& b) {
  State out{std::vector<float>(a.o.size(), 77), 77};
  cpu::merge_row(static_cast<int64_t>(a.o.size()), a.o.data(), a.z, b.o.data(), b.z, out.o.data(),
                 &out.z);
  return out;
}

bool same_bits(const State& a, const State& b) {
  const auto bits = [](float x) { return std::bit_cast<uint32_t>(x); };
  bool same = bits(a.z) == bits(b.z);
  for (size_t i = 0; i < a.o.size(); ++i) {
    same = same && bits(a.o[i]) == bits(b.o[i]);
  }
  return same;
}

State random_state(uint64_t seed, float spread) {
  const Philox random(seed, 50);
  State s{std::vector<float>(19), spread * static_cast<float>(random.gaussian(99))};
  for (size_t i = 0; i < s.o.size(); ++i) {
    s.o[i] = static_cast<float>(random.gaussian(i));
  }
  return s;
}

BOOST_AUTO_TEST_CASE(identity) {
  const State empty{{0, 0}, -infinity};
  const State garbage{{nan_value, infinity}, -infinity};
  const State some{{-0.0F, 1.25F}, -3.5F};
  BOOST_TEST(same_bits(merged(empty, empty), empty));
  BOOST_TEST(same_bits(merged(garbage, garbage), empty));
  for (const State& other : {empty, garbage}) {
    BOOST_TEST(same_bits(merged(some, other), some));
    BOOST_TEST(same_bits(merged(other, some), some));
  }
}

BOOST_AUTO_TEST_CASE(values) {
  // A side that is exp(-200) of the other adds nothing, however large its O.
  const State far = merged({{1e8F}, -100}, {{1}, 100});
  BOOST_TEST(far.o[0] == 1);
  BOOST_TEST(far.z == 100);
  // exp(88.8) overflows in float.
  BOOST_TEST(same_bits(merged({{3}, 88.8F}, {{5}, 0}), {{3}, 88.8F}));
  BOOST_TEST(same_bits(merged({{3}, 200}, {{5}, 0}), {{3}, 200}));
  for (const float z : {1e4F, -1e30F}) {
    const State equal = merged({{3}, z}, {{5}, z});
    BOOST_TEST(equal.o[0] == 4);
    BOOST_TEST(equal.z == static_cast<float>(static_cast<double>(z) + std::log(2.0)));
  }
  // Keys with scores -60000 and -60001: weights 0.731 and 0.269.
  const State low = merged({{1}, -60000}, {{0}, -60001});
  BOOST_TEST(low.o[0] == static_cast<float>(1 / (1 + std::exp(-1.0))));
  const float largest = std::numeric_limits<float>::max() * (1 - 0x1p-22F);
  for (const float gap : {0.0F, 0.1F, 3.0F}) {
    BOOST_TEST(std::isfinite(merged({{largest}, 1}, {{largest}, 1 + gap}).o[0]));
  }
}

BOOST_AUTO_TEST_CASE(nan_and_infinity_are_not_hidden) {
  const State some{{1, 2}, 0.5F};
  const State empty{{0, 0}, -infinity};
  for (const float z : {nan_value, infinity}) {
    for (const State& other : {some, empty}) {
      for (const State& out : {merged({{1, 2}, z}, other), merged(other, {{1, 2}, z})}) {
        BOOST_TEST((std::isnan(out.z) && std::isnan(out.o[0]) && std::isnan(out.o[1])));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(commutative_bit_for_bit) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const State a = random_state(seed, 3);
    const State b = random_state(seed + 5000, 3);
    BOOST_TEST(same_bits(merged(a, b), merged(b, a)), seed);
  }
}

// 4,096 keys of weight 2^-24 against one of weight 1, one by one: a share of 2.44e-4. Every merge
// rounds a sum of positive terms once, and its weights three times.
BOOST_AUTO_TEST_CASE(small_shares_are_not_lost) {
  State sum{{0}, 0};
  const auto z = static_cast<float>(-24 * std::log(2.0));
  double o = 0;
  double lse = 0;
  for (int i = 0; i < 4096; ++i) {
    sum = merged(sum, {{1}, z});
    const double one = 1;
    bdlm::merge<double>(1, &o, lse, &one, static_cast<double>(z));
  }
  const double relative = (4096 + 3) * unit_roundoff(Dtype::fp32);
  BOOST_TEST((o > 0x1p-13 && o < 0x1p-11));
  BOOST_TEST(std::abs(sum.o[0] - o) <= relative * o);
  BOOST_TEST(std::abs(sum.z - lse) <= relative * lse);
}

// Each merge adds two roundings of O and one of z; in 512 of them errors stay far below 512 u.
BOOST_AUTO_TEST_CASE(long_chains) {
  for (const int length : {8, 64, 512}) {
    State sum{std::vector<float>(19, 0), -infinity};
    std::vector<double> o(19, 0);
    double z = -std::numeric_limits<double>::infinity();
    for (int i = 0; i < length; ++i) {
      const State next = random_state(1000 + i, 2);
      sum = merged(sum, next);
      const std::vector<double> wide(next.o.begin(), next.o.end());
      bdlm::merge<double>(19, o.data(), z, wide.data(), static_cast<double>(next.z));
    }
    const double u = unit_roundoff(Dtype::fp32) * length;
    BOOST_TEST(std::abs(sum.z - z) <= u * std::abs(z));
    for (size_t c = 0; c < o.size(); ++c) {
      BOOST_TEST(std::abs(sum.o[c] - o[c]) <= u * 4);  // |O| < 4
    }
  }
}

// The entry: rows and heads, strides, in place.
BOOST_AUTO_TEST_CASE(the_entry_merges_every_row_and_head) {
  const test::Driver driver(bdlm_cpu_backend());
  const int64_t rows = 131;
  const int64_t heads = 3;
  const int64_t d = 19;
  std::vector<std::unique_ptr<test::HostTensor>> tensors;
  for (int i = 0; i < 3; ++i) {
    tensors.push_back(
        std::make_unique<test::HostTensor>(test::fp32, std::vector<int64_t>{rows, heads, d}, i));
    tensors.push_back(
        std::make_unique<test::HostTensor>(test::fp32, std::vector<int64_t>{rows, heads}, 2 * i));
  }
  std::vector<State> expected;
  for (int64_t i = 0; i < rows * heads; ++i) {
    State a = random_state(i, 3);
    State b = random_state(i + 9000, 3);
    if (i % 7 == 0) {
      a.z = -infinity;
    }
    if (i % 11 == 0) {
      b.z = -infinity;
    }
    for (int64_t c = 0; c < d; ++c) {
      tensors[0]->set(i * d + c, a.o[c]);
      tensors[2]->set(i * d + c, b.o[c]);
    }
    tensors[1]->set(i, a.z);
    tensors[3]->set(i, b.z);
    expected.push_back(merged(a, b));
  }
  for (const bool in_place : {false, true}) {
    const int out = in_place ? 0 : 4;
    bdlm_merge_args args{};
    args.size = sizeof args;
    args.o_a = tensors[0]->get();
    args.lse_a = tensors[1]->get();
    args.o_b = tensors[2]->get();
    args.lse_b = tensors[3]->get();
    args.o = tensors[out]->get();
    args.lse = tensors[out + 1]->get();
    driver.expect_ok(driver->merge(driver.context(), &args));
    bool same = tensors[out]->gaps_untouched() && tensors[out + 1]->gaps_untouched();
    for (int64_t i = 0; i < rows * heads; ++i) {
      State got{std::vector<float>(d), static_cast<float>(tensors[out + 1]->at(i))};
      for (int64_t c = 0; c < d; ++c) {
        got.o[c] = static_cast<float>(tensors[out]->at(i * d + c));
      }
      same = same && same_bits(got, expected[i]);
    }
    BOOST_TEST(same);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
