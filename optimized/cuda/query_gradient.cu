// dQ: bf16 on tensor cores, sums in fp32.
//
// A CTA has a tile of query rows of one head and walks over the tiles of keys as the forward does.
// From S and dP = d_o v^T it makes dS = P (dP - delta), rounds it to bf16 and adds dS k.

#include "optimized/cuda/attention_kernels.h"
#include "optimized/cuda/failure.h"
#include "optimized/cuda/key_walk.cuh"
#include "optimized/cuda/seen_product.cuh"
#include "optimized/cuda/shared_tile.cuh"
#include "optimized/cuda/tile_shapes.h"

namespace bdlm::cuda {
namespace {

template <int channels>
struct QueryGradientMemory {
  using Shape = QueryGradientShape<channels>;
  using Queries = SharedTile<Shape::rows, channels>;
  using Keys = SharedTile<Shape::keys, channels>;
  static constexpr int scratch = 16 * Shape::keys;  // of a warp
  static constexpr int bytes = 2 * Queries::bytes + 4 * Keys::bytes + warps * scratch * 2;

  bf16* memory;
  __device__ Queries q() const { return {memory}; }
  __device__ Queries d_o() const { return {memory + Queries::bytes / 2}; }
  __device__ Keys k(int stage) const { return {memory + Queries::bytes + stage * Keys::bytes}; }
  __device__ Keys v(int stage) const { return {k(stage).data + Keys::bytes / 2}; }
  __device__ bf16* scratch_of(int warp) const {
    return memory + Queries::bytes + 2 * Keys::bytes + warp * scratch;
  }
};

/// Adds the state, if there is one, and writes dq of rows `first` and `first` + 8.
template <int columns>
__device__ void write_query_gradient(const Problem& p, int64_t first, int head, int channel,
                                     const float (&dq)[columns / 8][4]) {
  const int t = threadIdx.x & 3;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = first + 8 * half;
    if (row >= p.rows) {
      continue;
    }
    const int64_t from = offset_of(p.dq_state, row, head);
    const int64_t to = offset_of(p.dq, row, head);
#pragma unroll
    for (int n = 0; n < columns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int c = channel + 8 * n + 2 * t + e;
        if (c < p.head_dim) {
          float x = dq[n][2 * half + e] * static_cast<float>(p.scale);
          if (p.dq_state.data != nullptr) {
            x += load_element<float>(p.dq_state.data, p.dq_state.element, from + c);
          }
          store_element(p.dq.data, p.dq.element, to + c, x);
        }
      }
    }
  }
}

template <int channels>
__global__ void __launch_bounds__(threads, 1)
    query_gradient_kernel(const __grid_constant__ Problem p) {
  if (p.only_if != nullptr && *p.only_if == 0) {
    return;
  }
  using Shape = QueryGradientShape<channels>;
  constexpr int keys = Shape::keys;
  constexpr int columns = Shape::part_channels;
  extern __shared__ __align__(128) bf16 shared[];
  const QueryGradientMemory<channels> memory{shared};
  const int group = p.group();
  const int row_tile = p.row_tiles[blockIdx.x / group];
  const int kv_head = static_cast<int>(blockIdx.y);
  const int head = kv_head * group + static_cast<int>(blockIdx.x % group);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp / Shape::parts * 16;
  const int channel = warp % Shape::parts * columns;
  const int64_t tile_row = int64_t{row_tile} * Shape::rows;
  const int64_t lane_row = tile_row + warp_row + (threadIdx.x & 31) / 4;
  const float to_base_2 = static_cast<float>(p.scale * 1.4426950408889634);
  const KeyWalk<keys> walk(p, row_tile);

  const auto load_keys = [&](int i) {
    const KeySet& set = p.sets[walk.set(i)];
    const Cover& seen = walk.cover(i);
    memory.k(i & 1).load(set.k, walk.key(i), seen.begin, seen.end, kv_head, p.head_dim,
                         p.vector_loads);
    memory.v(i & 1).load(set.v, walk.key(i), seen.begin, seen.end, kv_head, p.head_dim,
                         p.vector_loads);
    commit_copies();
  };

  float dq[columns / 8][4] = {};
  float shift[2], delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t at = head * p.padded_rows + lane_row + 8 * half;
    shift[half] = static_cast<const float*>(p.shift)[at];
    delta[half] = static_cast<const float*>(p.delta)[at];
  }
  if (walk.count() > 0) {
    memory.q().load(p.q, tile_row, 0, p.rows, head, p.head_dim, p.vector_loads);
    memory.d_o().load(p.d_o, tile_row, 0, p.rows, head, p.head_dim, p.vector_loads);
    load_keys(0);
  }
  for (int i = 0; i < walk.count(); ++i) {
    wait_for_copies();
    __syncthreads();  // tile i is there, and nobody reads tile i - 1 any more
    if (i + 1 < walk.count()) {
      load_keys(i + 1);
    }
    const auto k = memory.k(i & 1);
    const bool full = walk.is_full(i);
    Span spans[2] = {{0, keys}, {0, keys}};
    bool by_pairs = false;
    if (!full) {
      load_spans(p, p.sets[walk.set(i)], lane_row, walk.key(i), spans);
      // 0 times infinity must not reach a row that does not see the key.
      by_pairs = __syncthreads_or(k.some_not_finite());
    }
    float ds[keys / 8][4], dp[keys / 8][4];
    product_of_rows(ds, memory.q(), warp_row, k);
    product_of_rows(dp, memory.d_o(), warp_row, memory.v(i & 1));
    const int t = threadIdx.x & 3;
#pragma unroll
    for (int n = 0; n < keys / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int key = 8 * n + 2 * t + (e & 1);
        const Span& span = spans[e >> 1];
        const float probability = exp2_gradual(ds[n][e] * to_base_2 - shift[e >> 1]);
        const bool seen = full || (span.begin <= key && key < span.end);
        ds[n][e] = seen && shift[e >> 1] != INFINITY ? probability * (dp[n][e] - delta[e >> 1]) : 0;
      }
    }
    if (by_pairs) {
      add_product_seen<columns>(
          dq, ds, k, channel, memory.scratch_of(warp),
          [&](int half, int key) { return spans[half].begin <= key && key < spans[half].end; });
    } else {
      add_product<columns>(dq, ds, k, channel);
    }
  }
  write_query_gradient<columns>(p, lane_row, head, channel, dq);
}

}  // namespace

void launch_query_gradient(const Problem& problem, cudaStream_t stream) {
  if (problem.rows == 0) {
    return;
  }
  for_channels(problem.head_dim, [&](auto channels) {
    constexpr int bytes = QueryGradientMemory<channels.value>::bytes;
    static_assert(bytes <= 227 * 1024);
    const auto kernel = query_gradient_kernel<channels.value>;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
          "shared memory of dQ");
    const dim3 grid(problem.row_tile_count * problem.group(), problem.kv_heads);
    kernel<<<grid, threads, bytes, stream>>>(problem);
    check(cudaGetLastError(), "launch of dQ");
  });
}

}  // namespace bdlm::cuda
