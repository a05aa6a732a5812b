#pragma once
// Number formats, and rounding to them from double by integer arithmetic.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

namespace bdlm {

enum class Dtype : uint8_t { bf16, fp16, fp32, f64 };

/// "bf16", "fp16", "fp32", "f64".
std::string_view name(Dtype dtype);

/// Bytes.
constexpr int64_t size_of(Dtype dtype) {
  return dtype == Dtype::f64 ? 8 : dtype == Dtype::fp32 ? 4 : 2;
}

/// What defines a binary format: bits after the point, exponents of the smallest and of the largest
/// normal numbers.
struct FormatBits {
  int fraction;
  int lowest_exponent;
  int highest_exponent;
};

constexpr FormatBits format_bits(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return {7, -126, 127};
    case Dtype::fp16:
      return {10, -14, 15};
    case Dtype::fp32:
      return {23, -126, 127};
    case Dtype::f64:
      break;
  }
  return {52, -1022, 1023};
}

/// u: half the distance of neighbours in [1, 2), the largest relative error of one rounding to
/// nearest: 2^-8 bf16, 2^-11 fp16, 2^-24 fp32, 2^-53 f64.
constexpr double unit_roundoff(Dtype dtype) {
  return 1.0 / static_cast<double>(uint64_t{2} << format_bits(dtype).fraction);
}

/// Where a value between two neighbours of a format goes.
enum class Rounding : uint8_t {
  nearest_even,  ///< to the nearer one; from the middle to the one whose last bit is 0
  truncate,      ///< to the one nearer zero
};

/// `x` in the given format. Subnormals are kept; beyond the largest number, nearest_even gives
/// infinity and truncate the largest number. NaN and infinities stay what they are.
inline double round_to(double x, Dtype dtype, Rounding rounding = Rounding::nearest_even) {
  const FormatBits format = format_bits(dtype);
  constexpr uint64_t sign_bit = uint64_t{1} << 63;
  constexpr uint64_t hidden_bit = uint64_t{1} << 52;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint64_t sign = bits & sign_bit;
  const uint64_t magnitude = bits & ~sign_bit;
  const auto exponent = static_cast<int>(magnitude >> 52) - 1023;
  if (dtype == Dtype::f64 || exponent == 1024) {
    return x;
  }
  if (exponent == -1023) {
    return std::bit_cast<double>(sign);  // 0 or a subnormal double: far below every format
  }
  // |x| = significand * 2^(exponent - 52). The last `drop` bits do not fit; more of them where the
  // format's numbers are subnormal.
  const int below = exponent < format.lowest_exponent ? format.lowest_exponent - exponent : 0;
  const int drop = 52 - format.fraction + below;
  if (drop > 53) {
    return std::bit_cast<double>(sign);  // less than half the smallest number
  }
  const uint64_t significand = (magnitude & (hidden_bit - 1)) | hidden_bit;
  uint64_t kept = significand >> drop;
  if (rounding == Rounding::nearest_even) {
    const uint64_t rest = significand & ((uint64_t{1} << drop) - 1);
    const uint64_t half = uint64_t{1} << (drop - 1);
    kept += rest > half || (rest == half && kept % 2 == 1) ? 1 : 0;
  }
  // Exact: `kept` has at most 25 bits, and the exponent is a normal one of double.
  const double rounded = std::ldexp(static_cast<double>(kept), exponent - 52 + drop);
  const double beyond = std::ldexp(1.0, format.highest_exponent + 1);
  if (rounded >= beyond) {
    const double largest = std::ldexp(static_cast<double>((uint64_t{2} << format.fraction) - 1),
                                      format.highest_exponent - format.fraction);
    const double out =
        rounding == Rounding::truncate ? largest : std::numeric_limits<double>::infinity();
    return sign != 0 ? -out : out;
  }
  return sign != 0 ? -rounded : rounded;
}

}  // namespace bdlm
