#pragma once
// Rotary position embedding.

#include <cstdint>
#include <span>
#include <vector>

namespace bdlm::cpu {

/// Rotary positions by halves: channels i and i + D/2 of a head turn by position * theta^(-2i/D).
class Rope {
 public:
  /// `positions` of all rows; head_dim is even.
  Rope(int64_t head_dim, double theta, std::span<const int64_t> positions);
  /// x (rows, heads, head_dim) turns in place; with `back` the other way, which is the backward.
  void turn(int64_t heads, bool back, float* x) const;

 private:
  int64_t half_, rows_;
  std::vector<float> cosine_, sine_;  // (rows, head_dim / 2)
};

}  // namespace bdlm::cpu
