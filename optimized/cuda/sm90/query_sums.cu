// The end of the backward of sm90: sums of dQ, which lie in the order of registers, become rows.

#include "optimized/cuda/sm90/query_sums.cuh"

#include "optimized/cuda/failure.h"

namespace bdlm::cuda {
namespace {

using namespace backward_sm90;

constexpr int threads = 256;

/// dq = dq_state + scale * the sums; rows without keys have no sums. A CTA a tile of rows and head.
__global__ void __launch_bounds__(threads)
    finish_query_gradient(const __grid_constant__ Problem p, QuerySums sums,
                          const int32_t* not_finite) {
  if (*not_finite != 0) {
    return;
  }
  const int row_tile = static_cast<int>(blockIdx.x);
  const int head = static_cast<int>(blockIdx.y);
  bool any = false;
  for (int s = 0; s < p.set_count; ++s) {
    any = any || tiles_of(p.sets[s].streamed[row_tile]) > 0;
  }
  // From the order of registers to rows.
  __shared__ float tile[tile_rows][channels + 4];
  const float4* from = sums.sums + sums.index(p, head, row_tile) * vectors;
  for (int i = static_cast<int>(threadIdx.x); i < vectors; i += threads) {
    const int thread = i % 128;
    const int channel = i / 1024 * panel_channels + i / 128 % 8 * 8 + thread % 4 * 2;
    const int row = thread / 32 * 16 + thread % 32 / 4;
    const float4 x = any ? from[i] : make_float4(0, 0, 0, 0);
    *reinterpret_cast<float2*>(&tile[row][channel]) = make_float2(x.x, x.y);
    *reinterpret_cast<float2*>(&tile[row + 8][channel]) = make_float2(x.z, x.w);
  }
  __syncthreads();
  const float scale = static_cast<float>(p.scale);
  constexpr int pairs = channels / 2;
  const int64_t first = int64_t{row_tile} * tile_rows;
  const int count = static_cast<int>(min(int64_t{tile_rows}, p.rows - first)) * pairs;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += threads) {
    const int row = i / pairs;
    const int channel = i % pairs * 2;
    const float2 sum = *reinterpret_cast<const float2*>(&tile[row][channel]);
    float2 before{0, 0};
    if (p.dq_state.data != nullptr) {
      const int64_t state = offset_of(p.dq_state, first + row, head) + channel;
      before.x = load_element<float>(p.dq_state.data, p.dq_state.element, state);
      before.y = load_element<float>(p.dq_state.data, p.dq_state.element, state + 1);
    }
    store_pair(p.dq, offset_of(p.dq, first + row, head) + channel, before.x + scale * sum.x,
               before.y + scale * sum.y);
  }
}

}  // namespace

BackwardSm90Memory place_backward_sm90(const Problem& problem, Arena& arena) {
  const int64_t tiles = int64_t{problem.streamed_count} * problem.q_heads;
  return {arena.take<float>(tiles * tile_rows * channels), arena.take<int32_t>(tiles + 1)};
}

void launch_finish_query_gradient(const Problem& problem, const QuerySums& sums,
                                  const int32_t* not_finite, cudaStream_t stream) {
  const dim3 grid(problem.streamed_count, problem.q_heads);
  finish_query_gradient<<<grid, threads, 0, stream>>>(problem, sums, not_finite);
  check(cudaGetLastError(), "launch of the end of dQ");
}

}  // namespace bdlm::cuda
