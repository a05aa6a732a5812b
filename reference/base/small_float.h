#pragma once
// The two 16-bit floating-point formats as bit patterns: bf16 (8 exponent bits, 7 fraction bits)
// and f16 (IEEE binary16: 5 and 10).
//
// Integer arithmetic alone, so that every machine, compiler and language arrives at the same bits.
// Rounding takes doubles and happens once, to nearest, ties to even; a float is a double exactly,
// so floats are rounded once as well.

#include <bit>
#include <cstdint>

namespace bdlm {
namespace small_float {

constexpr int double_fraction = 52;
constexpr int64_t double_bias = 1023;
constexpr uint64_t double_exponent_mask = 0x7ff;
constexpr uint64_t double_fraction_mask = (uint64_t{1} << double_fraction) - 1;

/// `value` in a format with a sign, `Exponent` exponent bits and `Fraction` fraction bits. Values
/// that round beyond the largest finite one become infinite. NaN stays NaN: sign and leading
/// fraction bits are kept, the quiet bit is set.
template <int Exponent, int Fraction>
constexpr uint16_t round(double value) {
  static_assert(1 + Exponent + Fraction == 16 && Exponent < 11);
  constexpr uint64_t all_ones = (uint64_t{1} << Exponent) - 1;
  constexpr uint64_t infinity_bits = all_ones << Fraction;
  constexpr int64_t bias = (int64_t{1} << (Exponent - 1)) - 1;

  const auto bits = std::bit_cast<uint64_t>(value);
  const uint64_t sign = bits >> 63 << 15;
  const uint64_t field = (bits >> double_fraction) & double_exponent_mask;
  const uint64_t fraction = bits & double_fraction_mask;
  if (field == double_exponent_mask) {
    const uint64_t kept = fraction >> (double_fraction - Fraction);
    const uint64_t quiet = uint64_t{1} << (Fraction - 1);
    return static_cast<uint16_t>(sign | infinity_bits | (fraction == 0 ? 0 : kept | quiet));
  }
  // The exponent field that the result would have; below 1 it is subnormal. A double that is itself
  // subnormal has far fewer, and vanishes below.
  const int64_t exponent = static_cast<int64_t>(field) - double_bias + bias;
  if (exponent >= static_cast<int64_t>(all_ones)) {
    return static_cast<uint16_t>(sign | infinity_bits);
  }
  // A subnormal result has the unit of exponent field 1, so more low bits fall away.
  const int64_t normal = exponent >= 1 ? exponent : 1;
  const int64_t dropped = double_fraction - Fraction + (normal - exponent);
  if (dropped > double_fraction + 1) {
    return static_cast<uint16_t>(sign);  // below half of the smallest subnormal
  }
  const uint64_t significand = fraction | (uint64_t{1} << double_fraction);
  const uint64_t half = uint64_t{1} << (dropped - 1);
  const uint64_t rest = significand & (half | (half - 1));
  uint64_t rounded = significand >> dropped;
  rounded += (rest > half || (rest == half && (rounded & 1) == 1)) ? 1 : 0;
  // The leading one of a normal significand, and a carry out of the fraction, add to the exponent
  // field; a carry beyond the largest finite value arrives at infinity.
  return static_cast<uint16_t>(sign | ((static_cast<uint64_t>(normal - 1) << Fraction) + rounded));
}

/// The value of a bit pattern, exactly. A signalling NaN becomes a quiet one.
template <int Exponent, int Fraction>
constexpr double value(uint16_t pattern) {
  static_assert(1 + Exponent + Fraction == 16 && Exponent < 11);
  constexpr uint64_t all_ones = (uint64_t{1} << Exponent) - 1;
  constexpr int64_t bias = (int64_t{1} << (Exponent - 1)) - 1;

  const uint64_t sign = static_cast<uint64_t>(pattern >> 15) << 63;
  const uint64_t field = (static_cast<uint64_t>(pattern) >> Fraction) & all_ones;
  uint64_t fraction = pattern & ((uint64_t{1} << Fraction) - 1);
  if (field == all_ones) {
    const uint64_t quiet = fraction == 0 ? 0 : uint64_t{1} << (double_fraction - 1);
    return std::bit_cast<double>(sign | double_exponent_mask << double_fraction | quiet |
                                 fraction << (double_fraction - Fraction));
  }
  int64_t exponent = static_cast<int64_t>(field) - bias + double_bias;
  if (field == 0) {
    if (fraction == 0) {
      return std::bit_cast<double>(sign);
    }
    // A subnormal is a normal double: its leading one moves up to where it is implied.
    const int up = Fraction + 1 - std::bit_width(fraction);
    fraction = (fraction << up) & ((uint64_t{1} << Fraction) - 1);
    exponent += 1 - up;
  }
  return std::bit_cast<double>(sign | static_cast<uint64_t>(exponent) << double_fraction |
                               fraction << (double_fraction - Fraction));
}

}  // namespace small_float

constexpr uint16_t round_to_bf16(double value) {
  return small_float::round<8, 7>(value);
}
constexpr uint16_t round_to_f16(double value) {
  return small_float::round<5, 10>(value);
}
/// Exact, also when narrowed to float.
constexpr double bf16_value(uint16_t pattern) {
  return small_float::value<8, 7>(pattern);
}
/// Exact, also when narrowed to float.
constexpr double f16_value(uint16_t pattern) {
  return small_float::value<5, 10>(pattern);
}

}  // namespace bdlm
