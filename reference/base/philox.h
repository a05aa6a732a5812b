#pragma once
// Philox4x32-10, a counter-based random number generator: value `element` of tensor `tensor` is a
// pure function of the seed, so any part of any tensor can be made anywhere, in any order.
//
// Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). All mappings
// from words to values below use integer arithmetic and one exact scaling, no math library, so that
// every language and device arrives at the same bits.

#include <array>
#include <cstdint>

#include "reference/base/error.h"

namespace bdlm {

using PhiloxWords = std::array<uint32_t, 4>;

/// Ten rounds over one counter block.
constexpr PhiloxWords philox4x32(PhiloxWords counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += 0x9E3779B9;  // the golden ratio
    key[1] += 0xBB67AE85;  // sqrt(3) - 1
  }
  return counter;
}

/// The sum of the low halves of four words, centred: an approximately Gaussian value with mean 0,
/// deviation 1.155 and |x| < 4. Exact in float and double (a multiple of 2^-15 below 2^2).
constexpr double gaussian_like(const PhiloxWords& words) {
  int64_t sum = 0;
  for (const uint32_t word : words) {
    sum += word & 0xffff;
  }
  return static_cast<double>(sum - 131070) * 0x1p-15;
}

/// Uniform in [0, 1), all 53 bits, from the first two words.
constexpr double uniform53(const PhiloxWords& words) {
  const uint64_t bits = (uint64_t{words[0] >> 5} << 26) | (words[1] >> 6);
  return static_cast<double>(bits) * 0x1p-53;
}

/// The random values of one tensor.
class Philox {
 public:
  /// `tensor` and `stream` tell apart what shares a seed: tensors, ranks, repeats.
  constexpr explicit Philox(uint64_t seed, uint32_t tensor = 0, uint32_t stream = 0)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        tensor_(tensor),
        stream_(stream) {}

  constexpr PhiloxWords words(uint64_t element) const {
    return philox4x32(
        {static_cast<uint32_t>(element), static_cast<uint32_t>(element >> 32), tensor_, stream_},
        key_);
  }

  /// Approximately Gaussian, deviation 1.155 (see gaussian_like).
  constexpr double gaussian(uint64_t element) const { return gaussian_like(words(element)); }

  /// Uniform in [0, 1).
  constexpr double uniform(uint64_t element) const { return uniform53(words(element)); }

  /// Uniform in [0, n), without bias. Takes `r = w0 + 2^32 w1` modulo n; an r below 2^64 mod n
  /// would favour small results, so then the block becomes its own next counter and another is
  /// drawn. Throws InputError if n < 1.
  int64_t below(uint64_t element, int64_t n) const {
    require(n >= 1, "the number of values to draw from is ", n, "; it must be at least 1");
    const auto modulus = static_cast<uint64_t>(n);
    const uint64_t unfair = (uint64_t{0} - modulus) % modulus;
    PhiloxWords block = words(element);
    while (true) {
      const uint64_t r = uint64_t{block[0]} | (uint64_t{block[1]} << 32);
      if (r >= unfair) {
        return static_cast<int64_t>(r % modulus);
      }
      block = philox4x32(block, key_);
    }
  }

 private:
  std::array<uint32_t, 2> key_;
  uint32_t tensor_;
  uint32_t stream_;
};

}  // namespace bdlm
