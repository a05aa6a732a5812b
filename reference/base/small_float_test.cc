#include "reference/base/small_float.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "reference/base/error.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(small_float_formats)

namespace {

/// A format, and slow arithmetic on it that shares nothing with the code under test.
struct Format {
  const char* name;
  int exponent_bits;
  int fraction_bits;
  uint16_t (*round)(double);
  double (*value)(uint16_t);

  int all_ones() const { return (1 << exponent_bits) - 1; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint16_t infinity() const { return static_cast<uint16_t>(all_ones() << fraction_bits); }
  uint16_t quiet() const { return static_cast<uint16_t>(1 << (fraction_bits - 1)); }
  bool is_nan(uint16_t pattern) const { return (pattern & 0x7fff) > infinity(); }

  /// (-1)^s 2^(e - bias) (1 + f / 2^F), or (-1)^s 2^(1 - bias) f / 2^F where e = 0. The pattern of
  /// infinity has the value that would come next, 2^(bias + 1).
  double slow_value(int pattern) const {
    const int sign = pattern >> 15;
    const int exponent = (pattern & 0x7fff) >> fraction_bits;
    const double part = std::ldexp(pattern & ((1 << fraction_bits) - 1), -fraction_bits);
    const double size =
        exponent == 0 ? std::ldexp(part, 1 - bias()) : std::ldexp(1 + part, exponent - bias());
    return sign == 1 ? -size : size;
  }

  /// Nearest of all values by comparison with the middle between neighbours, which is a double; the
  /// even pattern on a tie.
  uint16_t slow_round(double x) const {
    const double size = std::abs(x);
    const int sign = std::signbit(x) ? 0x8000 : 0;
    int low = 0, high = infinity();  // slow_value(low) <= size < slow_value(high)
    if (size >= slow_value(high)) {
      return static_cast<uint16_t>(sign | high);
    }
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (size >= slow_value(middle) ? low : high) = middle;
    }
    const double middle = slow_value(low) / 2 + slow_value(high) / 2;
    const bool up = size > middle || (size == middle && low % 2 == 1);
    return static_cast<uint16_t>(sign | (up ? high : low));
  }
};

const Format formats[] = {{"bf16", 8, 7, round_to_bf16, bf16_value},
                          {"f16", 5, 10, round_to_f16, f16_value}};

// value(p) = (-1)^s 2^(e - bias) (1 + f / 2^F) for all 65536 patterns, and round(value(p)) = p; a
// signalling NaN comes back quiet.
BOOST_AUTO_TEST_CASE(every_pattern_there_and_back) {
  for (const Format& format : formats) {
    for (int p = 0; p < 65536; ++p) {
      const auto pattern = static_cast<uint16_t>(p);
      const double x = format.value(pattern);
      const uint16_t back = format.round(x);
      BOOST_TEST_INFO(format.name << " pattern " << p);
      if (format.is_nan(pattern)) {
        BOOST_REQUIRE(std::isnan(x));
        BOOST_TEST_INFO(format.name << " pattern " << p << " " << back);
        BOOST_REQUIRE(back == (pattern | format.quiet()));
        continue;
      }
      const double expected = (p & 0x7fff) == format.infinity()
                                  ? std::copysign(INFINITY, format.slow_value(p))
                                  : format.slow_value(p);
      BOOST_REQUIRE_EQUAL(std::bit_cast<uint64_t>(x), std::bit_cast<uint64_t>(expected));
      BOOST_TEST_INFO(format.name << " pattern " << p);
      BOOST_REQUIRE_EQUAL(back, pattern);
      // A float holds every value.
      BOOST_REQUIRE_EQUAL(static_cast<double>(static_cast<float>(x)), x);
    }
  }
}

// Between each pair of neighbours a < b, the last pair ending at infinity: a below the middle
// (a + b) / 2, b above it, the even pattern at it; both signs.
BOOST_AUTO_TEST_CASE(rounding_between_all_neighbours) {
  for (const Format& format : formats) {
    for (int p = 0; p < format.infinity(); ++p) {
      const double a = format.slow_value(p);
      const double b = format.slow_value(p + 1);
      const double middle = a / 2 + b / 2;
      const int even = p % 2 == 0 ? p : p + 1;
      const double quarter = (b - a) / 4;
      for (const auto& [x, expected] :
           {std::pair(a, p), std::pair(std::nextafter(a, INFINITY), p), std::pair(a + quarter, p),
            std::pair(std::nextafter(middle, 0), p), std::pair(middle, even),
            std::pair(std::nextafter(middle, INFINITY), p + 1), std::pair(b - quarter, p + 1),
            std::pair(std::nextafter(b, 0), p + 1)}) {
        BOOST_TEST_INFO(format.name << " pattern " << p << " x " << x);
        BOOST_REQUIRE_EQUAL(format.slow_round(x), expected);
        BOOST_TEST_INFO(format.name << " pattern " << p << " x " << x);
        BOOST_REQUIRE_EQUAL(format.round(x), expected);
        BOOST_TEST_INFO(format.name << " pattern " << p << " x " << -x);
        BOOST_REQUIRE_EQUAL(format.round(-x), expected | 0x8000);
      }
    }
  }
}

// round(x) = slow_round(x) for doubles of any bits, and for floats, most of them in range
BOOST_AUTO_TEST_CASE(random_values_round_as_the_slow_search_does) {
  std::mt19937_64 random(1);
  std::uniform_int_distribution<int> scale(-160, 140);
  for (const Format& format : formats) {
    for (int i = 0; i < 200000; ++i) {
      const auto any = std::bit_cast<double>(random());
      const double near = std::ldexp(static_cast<double>(random()), scale(random) - 64);
      const auto single =
          static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(random())));
      for (const double x : {any, near, -near, single}) {
        if (!std::isnan(x)) {
          BOOST_TEST_INFO(format.name << " x " << x);
          BOOST_REQUIRE_EQUAL(format.round(x), format.slow_round(x));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(known_values) {
  static_assert(round_to_bf16(1) == 0x3f80 && round_to_f16(1) == 0x3c00);
  static_assert(bf16_value(0xc049) == -3.140625 && f16_value(0x3555) == 0x1.554p-2);
  BOOST_TEST(round_to_bf16(3.14159265) == 0x4049);
  BOOST_TEST(round_to_f16(3.14159265) == 0x4248);
  BOOST_TEST(round_to_f16(65504) == 0x7bff);
  BOOST_TEST(round_to_f16(65519.999) == 0x7bff);
  BOOST_TEST(round_to_f16(65520) == 0x7c00);
  BOOST_TEST(round_to_f16(-0x1p-25) == 0x8000);
  BOOST_TEST(round_to_f16(0x1.0000000000001p-25) == 0x0001);
  BOOST_TEST(round_to_bf16(0x1p-133) == 0x0001);
  BOOST_TEST(round_to_bf16(0x1p-134) == 0x0000);
  BOOST_TEST(round_to_bf16(std::numeric_limits<double>::denorm_min()) == 0x0000);
  BOOST_TEST(round_to_bf16(-std::numeric_limits<double>::max()) == 0xff80);
  // 1 + 2^-8 is a tie and goes down to 1. 2^-30 above, it goes up; a float in between would have
  // lost that.
  BOOST_TEST(round_to_bf16(1 + 0x1p-8) == 0x3f80);
  BOOST_TEST(round_to_bf16(1 + 0x1p-8 + 0x1p-30) == 0x3f81);
  BOOST_TEST(round_to_bf16(static_cast<float>(1 + 0x1p-8 + 0x1p-30)) == 0x3f80);
  // NaN: sign and leading fraction bits stay. A fraction in the dropped bits alone stays NaN too.
  BOOST_TEST(round_to_bf16(std::bit_cast<double>(0xfff4'0000'0000'0001)) == 0xffe0);
  BOOST_TEST(round_to_f16(std::bit_cast<double>(uint64_t{0x7ff0'0000'0000'0001})) == 0x7e00);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
