#pragma once
// Which tiles of keys a tile of query rows needs, over both key sets.

#include "optimized/cuda/problem.h"

namespace bdlm::cuda {

/// Tiles of `size` keys from a multiple of it on, those of set 0 first.
template <int size>
class KeyWalk {
 public:
  __device__ KeyWalk(const Problem& p, int row_tile) {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      if (s < p.set_count) {
        covers_[s] = p.sets[s].covers[row_tile];
      }
      const Cover& c = covers_[s];
      first_[s] = c.begin / size;
      counts_[s] = c.begin < c.end ? (c.end - 1) / size + 1 - first_[s] : 0;
    }
  }

  __device__ int count() const {
    return counts_[0] + counts_[1];
  }
  __device__ int set(int i) const {
    return i < counts_[0] ? 0 : 1;
  }
  /// The first key of tile i.
  __device__ int key(int i) const {
    return i < counts_[0] ? (first_[0] + i) * size : (first_[1] + i - counts_[0]) * size;
  }
  __device__ const Cover& cover(int i) const {
    return i < counts_[0] ? covers_[0] : covers_[1];
  }
  /// Whether every row sees every key of tile i.
  __device__ bool is_full(int i) const {
    const Cover& c = cover(i);
    return c.full_begin <= key(i) && key(i) + size <= c.full_end;
  }

 private:
  Cover covers_[2] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
  int first_[2], counts_[2];
};

/// What rows `first` and `first` + 8 see, relative to `key`; nothing beyond the last row.
__device__ inline void load_spans(const Problem& p, const KeySet& set, int64_t first, int key,
                                  Span (&spans)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const Span span = set.spans[first + 8 * half];
    spans[half] = {span.begin - key, span.end - key};
  }
}

}  // namespace bdlm::cuda
