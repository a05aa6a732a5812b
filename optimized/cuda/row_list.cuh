#pragma once
// Which tiles of query rows see a tile of keys.

#include "optimized/cuda/problem.h"

namespace bdlm::cuda {

/// Tiles of rows in ascending order, found `capacity` candidates at a time. In shared memory.
template <int threads, int capacity>
struct RowList {
  static_assert(capacity % threads == 0 && threads % 32 == 0);
  int32_t tiles[capacity];
  int32_t warp_counts[threads / 32];

  /// Lists those of the tiles [first, first + capacity) of `covers` whose cover meets [begin, end).
  /// Returns how many there are. For all threads of the CTA; ends with a barrier.
  __device__ int find(const Cover* covers, int first, int count, int begin, int end) {
    constexpr int each = capacity / threads;
    const int lane = static_cast<int>(threadIdx.x) & 31;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    int total = 0;
    for (int step = 0; step < each; ++step) {
      const int tile = first + step * threads + static_cast<int>(threadIdx.x);
      bool meets = false;
      if (tile < count) {
        const Cover c = covers[tile];
        meets = c.begin < c.end && c.begin < end && begin < c.end;
      }
      const uint32_t votes = __ballot_sync(0xffffffff, meets);
      if (lane == 0) {
        warp_counts[warp] = __popc(votes);
      }
      __syncthreads();
      int before = total;
      for (int w = 0; w < threads / 32; ++w) {
        before += w < warp ? warp_counts[w] : 0;
        total += warp_counts[w];
      }
      if (meets) {
        tiles[before + __popc(votes & ((1u << lane) - 1))] = tile;
      }
      __syncthreads();
    }
    return total;
  }
};

}  // namespace bdlm::cuda
