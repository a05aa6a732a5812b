#pragma once
// Bits that no computation produces, to see what a backend wrote and what it did not.

#include <cstdint>

#include "conformance/plugin/bdlm_plugin.h"

namespace bdlm {

/// Steele, Lea, Flood: SplitMix64's output function (OOPSLA 2014); every bit of the result depends
/// on every bit of `x`.
constexpr uint64_t mix_bits(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

/// The bits of element `index` under `seed`, in the low `dtype.bits` bits. For floats a signalling
/// NaN, whose sign and payload are random: arithmetic only ever makes quiet ones, so an element
/// that holds these very bits was not computed. For integers random bits.
constexpr uint64_t poison_bits(bdlm_dtype dtype, uint64_t seed, uint64_t index) {
  const uint64_t random = mix_bits(seed ^ mix_bits(index));
  if (dtype.code == 0) {
    return dtype.bits == 64 ? random : random & ((uint64_t{1} << dtype.bits) - 1);
  }
  const int fraction = dtype.bits == 64 ? 52 : dtype.bits == 32 ? 23 : dtype.code == 4 ? 7 : 10;
  const uint64_t quiet = uint64_t{1} << (fraction - 1);
  const uint64_t sign = uint64_t{1} << (dtype.bits - 1);
  const uint64_t exponent = (sign - 1) & ~((quiet << 1) - 1);
  // A payload of 0 would be infinity.
  const uint64_t payload = random & (quiet - 1);
  return exponent | (payload == 0 ? 1 : payload) | (random & (uint64_t{1} << 63) ? sign : 0);
}

}  // namespace bdlm
