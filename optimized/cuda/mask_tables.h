#pragma once
// The mask as kernels read it: what every row and every tile of rows sees, and in which order tiles
// are best taken. Built on the host from the intervals, copied to the device.

#include <cstddef>
#include <span>
#include <vector>

#include "optimized/cuda/problem.h"

namespace bdlm::cuda {

/// The tiles of a call's kernels. All sizes divide `row_granularity`.
struct TileSizes {
  int rows = 1;      ///< query rows that a CTA of the forward, or of dQ, computes
  int keys = 1;      ///< keys that a CTA of dK and dV computes; 0 in the forward
  int streamed = 1;  ///< query rows that it reads at a time; 0 in the forward
  friend bool operator==(const TileSizes&, const TileSizes&) = default;
};
constexpr int64_t row_granularity = 128;

constexpr int64_t round_up(int64_t x, int64_t step) {
  return (x + step - 1) / step * step;
}

/// Deals out a workspace in pieces aligned to 256 bytes; counts them where there is none yet.
class Arena {
 public:
  explicit Arena(void* base) : base_(static_cast<char*>(base)) {}
  template <class T>
  T* take(int64_t count) {
    const size_t at = bytes_;
    bytes_ += static_cast<size_t>(round_up(count * static_cast<int64_t>(sizeof(T)), 256));
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
  }
  size_t bytes() const { return bytes_; }

 private:
  char* base_;
  size_t bytes_ = 0;
};

/// Sets the pointers and counts of the tables of `problem`, which come first in `arena`.
void place_tables(Problem& problem, const TileSizes& tiles, Arena& arena);

/// The tables, byte for byte as they have to stand at `workspace`, from which they were placed.
/// intervals: of every key set, (R, 2). Throws InputError where an interval is not one of stored
/// keys.
std::vector<std::byte> build_tables(const Problem& problem, const TileSizes& tiles,
                                    std::span<const int64_t* const> intervals,
                                    const void* workspace);

}  // namespace bdlm::cuda
