#pragma once
// The sums of dQ that the backward of sm90 makes, and its tiles.

#include "optimized/cuda/sm90/kernels.h"
#include "optimized/cuda/sm90/wgmma.cuh"
#include "optimized/cuda/tensor_access.cuh"

namespace bdlm::cuda {
namespace backward_sm90 {

constexpr int channels = 128;
constexpr int tile_keys = sm90_backward_tiles.keys;
constexpr int tile_rows = sm90_backward_tiles.streamed;
static_assert(tile_rows == 64 && tile_keys == 128);

/// The sums of dQ: (Hq, tiles of rows, 64 x 128) in the order of registers, and how many parts each
/// has.
struct QuerySums {
  float4* sums;
  int32_t* parts;
  __device__ int64_t index(const Problem& p, int head, int row_tile) const {
    return int64_t{head} * p.streamed_count + row_tile;
  }
};
constexpr int vectors = tile_rows * channels / 4;

/// Tiles of keys of a cover.
__device__ inline int tiles_of(const Cover& c) {
  return c.begin < c.end ? (c.end - 1) / tile_keys + 1 - c.begin / tile_keys : 0;
}

/// Two neighbouring channels.
__device__ inline void store_pair(const HeadRows& t, int64_t offset, float x, float y) {
  if (t.element == Element::bf16) {
    *reinterpret_cast<uint32_t*>(static_cast<bf16*>(t.data) + offset) = rounded_pair(x, y);
  } else {
    float* to = static_cast<float*>(t.data) + offset;
    to[0] = x;
    to[1] = y;
  }
}

}  // namespace backward_sm90

/// dq = dq_state + scale * the sums.
void launch_finish_query_gradient(const Problem& problem, const backward_sm90::QuerySums& sums,
                                  const int32_t* not_finite, cudaStream_t stream);

}  // namespace bdlm::cuda
