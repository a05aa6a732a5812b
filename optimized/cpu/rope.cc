#include "optimized/cpu/rope.h"

#include <cmath>

#include "optimized/cpu/parallel_units.h"

namespace bdlm::cpu {
namespace {

/// Rows of a unit of work.
constexpr int64_t turned_rows = 64;

}  // namespace

Rope::Rope(int64_t head_dim, double theta, std::span<const int64_t> positions)
    : half_(head_dim / 2),
      rows_(std::ssize(positions)),
      cosine_(half_ * rows_),
      sine_(half_ * rows_) {
  std::vector<double> frequency(half_);
  for (int64_t i = 0; i < half_; ++i) {
    frequency[i] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
  }
  parallel_units(rows_, turned_rows, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t i = 0; i < half_; ++i) {
        const double angle = static_cast<double>(positions[row]) * frequency[i];
        cosine_[row * half_ + i] = static_cast<float>(std::cos(angle));
        sine_[row * half_ + i] = static_cast<float>(std::sin(angle));
      }
    }
  });
}

void Rope::turn(int64_t heads, bool back, float* x) const {
  parallel_units(rows_, turned_rows, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* c = cosine_.data() + row * half_;
      const float* s = sine_.data() + row * half_;
      for (int64_t head = 0; head < heads; ++head) {
        float* low = x + (row * heads + head) * 2 * half_;
        float* high = low + half_;
        for (int64_t i = 0; i < half_; ++i) {
          const float sine = back ? -s[i] : s[i];
          const float a = low[i];
          const float b = high[i];
          low[i] = a * c[i] - b * sine;
          high[i] = b * c[i] + a * sine;
        }
      }
    }
  });
}

}  // namespace bdlm::cpu
