#include "conformance/judge/rounding.h"

#include <boost/test/unit_test.hpp>
#include <random>
#include <vector>

namespace bdlm {
BOOST_AUTO_TEST_SUITE(rounding)

namespace {

/// Every finite number >= 0 of a 16-bit format, ascending, from its definition.
std::vector<double> numbers(Dtype dtype) {
  const FormatBits f = format_bits(dtype);
  std::vector<double> out;
  const int count = 1 << f.fraction;
  for (int i = 0; i < count; ++i) {
    out.push_back(std::ldexp(i, f.lowest_exponent - f.fraction));
  }
  for (int e = f.lowest_exponent; e <= f.highest_exponent; ++e) {
    for (int i = 0; i < count; ++i) {
      out.push_back(std::ldexp(count + i, e - f.fraction));
    }
  }
  return out;
}

bool same(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

// u = 2^-(fraction + 1)
BOOST_AUTO_TEST_CASE(unit_roundoffs) {
  BOOST_TEST(unit_roundoff(Dtype::bf16) == 0x1p-8);
  BOOST_TEST(unit_roundoff(Dtype::fp16) == 0x1p-11);
  BOOST_TEST(unit_roundoff(Dtype::fp32) == 0x1p-24);
  BOOST_TEST(unit_roundoff(Dtype::f64) == 0x1p-53);
}

// For all neighbours a < b: a -> a, below the middle -> a, the middle -> the even one, above -> b;
// truncation gives a all the way; and the same with signs.
BOOST_AUTO_TEST_CASE(every_number_and_every_middle_of_16_bits) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::fp16}) {
    const std::vector<double> all = numbers(dtype);
    int64_t wrong = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      const bool last = i + 1 == all.size();
      const double a = all[i];
      const double b = last ? std::numeric_limits<double>::infinity() : all[i + 1];
      // Beyond the largest number the grid goes on, as if the exponent did.
      const double middle = last ? a + (a - all[i - 1]) / 2 : a + (b - a) / 2;
      const double even = i % 2 == 0 ? a : b;
      for (const double sign : {1.0, -1.0}) {
        const auto rounds = [&](double x, double to) {
          wrong += same(round_to(sign * x, dtype), sign * to) ? 0 : 1;
        };
        rounds(a, a);
        rounds(middle, even);
        rounds(std::nextafter(middle, 0), a);
        rounds(std::nextafter(middle, b), b);
        rounds(std::nextafter(a, b), a);
        for (const double x : {a, middle, std::nextafter(middle, b)}) {
          wrong += same(round_to(sign * x, dtype, Rounding::truncate), sign * a) ? 0 : 1;
        }
        if (!last) {
          const double below = std::nextafter(b, 0);
          rounds(below, b);
          wrong += same(round_to(sign * below, dtype, Rounding::truncate), sign * a) ? 0 : 1;
        }
      }
    }
    BOOST_TEST(wrong == 0);
    BOOST_TEST(all.size() == (dtype == Dtype::bf16 ? 0x7f80u : 0x7c00u));
  }
}

// fp32: the processor's conversion, on doubles of every exponent, and on the middles of floats.
BOOST_AUTO_TEST_CASE(fp32_as_the_processor_converts) {
  std::mt19937_64 random(1);
  int64_t wrong = 0;
  for (int64_t i = 0; i < 3'000'000; ++i) {
    uint64_t bits = random();
    if (i % 3 == 0) {
      // Exponents near the subnormal floats.
      bits = (bits & ~(uint64_t{0x7ff} << 52)) | ((1023 - 126 - 30 + random() % 34) << 52);
    } else if (i % 3 == 1) {
      // Exactly between two floats.
      bits = (bits & ~((uint64_t{1} << 29) - 1)) | (uint64_t{1} << 28);
    }
    const auto x = std::bit_cast<double>(bits);
    if (std::isfinite(x)) {
      wrong += same(round_to(x, Dtype::fp32), static_cast<double>(static_cast<float>(x))) ? 0 : 1;
    }
  }
  BOOST_TEST(wrong == 0);
}

// bf16 from floats by the usual addition of 0x7fff and the last bit, on every 257th float.
BOOST_AUTO_TEST_CASE(bf16_as_by_addition) {
  int64_t wrong = 0;
  for (uint64_t i = 0; i < uint64_t{1} << 32; i += 257) {
    const auto bits = static_cast<uint32_t>(i);
    const auto x = std::bit_cast<float>(bits);
    if (!std::isnan(x)) {
      const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
      wrong += same(round_to(x, Dtype::bf16), std::bit_cast<float>(rounded)) ? 0 : 1;
    }
  }
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(what_is_not_finite) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const Dtype dtype : {Dtype::bf16, Dtype::fp16, Dtype::fp32, Dtype::f64}) {
    for (const Rounding rounding : {Rounding::nearest_even, Rounding::truncate}) {
      BOOST_TEST(round_to(inf, dtype, rounding) == inf);
      BOOST_TEST(round_to(-inf, dtype, rounding) == -inf);
      BOOST_TEST(std::isnan(round_to(std::nan(""), dtype, rounding)));
      BOOST_TEST(std::signbit(round_to(-0.0, dtype, rounding)));
    }
  }
  BOOST_TEST(round_to(65520, Dtype::fp16) == inf);
  BOOST_TEST(round_to(65519.99, Dtype::fp16) == 65504);
  BOOST_TEST(round_to(1e300, Dtype::fp16, Rounding::truncate) == 65504);
  BOOST_TEST(round_to(5e-324, Dtype::fp32) == 0);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
