// Attention forward: bf16 on tensor cores, sums in fp32, the softmax on the go.
//
// A CTA has a tile of query rows of one head and walks over the tiles of keys that any of its rows
// sees, of both key sets; the next tile is copied while one is computed. Scores are kept in base 2.

#include "optimized/cuda/attention_kernels.h"
#include "optimized/cuda/attention_output.cuh"
#include "optimized/cuda/failure.h"
#include "optimized/cuda/key_walk.cuh"
#include "optimized/cuda/seen_product.cuh"
#include "optimized/cuda/shared_tile.cuh"
#include "optimized/cuda/tile_shapes.h"

namespace bdlm::cuda {
namespace {

template <int channels>
struct ForwardMemory {
  using Shape = ForwardShape<channels>;
  using Queries = SharedTile<Shape::rows, channels>;
  using Keys = SharedTile<Shape::keys, channels>;
  static constexpr int scratch = 16 * Shape::keys;  // of a warp
  static constexpr int bytes = Queries::bytes + 4 * Keys::bytes + warps * scratch * 2;

  bf16* memory;
  __device__ Queries q() const { return {memory}; }
  __device__ Keys k(int stage) const { return {memory + Queries::bytes / 2 + stage * Keys::bytes}; }
  __device__ Keys v(int stage) const { return {k(stage).data + Keys::bytes / 2}; }
  __device__ bf16* scratch_of(int warp) const {
    return memory + (Queries::bytes + 4 * Keys::bytes) / 2 + warp * scratch;
  }
};

/// Scores in base 2 (16 x keys), -inf where a row does not see a key.
template <int keys>
__device__ void mask_scores(float (&s)[keys / 8][4], const Span (&spans)[2]) {
  const int t = threadIdx.x & 3;
#pragma unroll
  for (int n = 0; n < keys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = 8 * n + 2 * t + (i & 1);
      const Span& span = spans[i >> 1];
      s[n][i] = span.begin <= key && key < span.end ? s[n][i] : -INFINITY;
    }
  }
}

template <int channels>
__global__ void __launch_bounds__(threads, 1) forward_kernel(const __grid_constant__ Problem p) {
  if (p.only_if != nullptr && *p.only_if == 0) {
    return;
  }
  using Shape = ForwardShape<channels>;
  constexpr int keys = Shape::keys;
  constexpr int columns = Shape::part_channels;
  extern __shared__ __align__(128) bf16 shared[];
  const ForwardMemory<channels> memory{shared};
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

  float out[columns / 8][4] = {};
  float row_max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};
  if (walk.count() > 0) {
    memory.q().load(p.q, tile_row, 0, p.rows, head, p.head_dim, p.vector_loads);
    load_keys(0);
  }
  for (int i = 0; i < walk.count(); ++i) {
    wait_for_copies();
    __syncthreads();  // tile i is there, and nobody reads tile i - 1 any more
    if (i + 1 < walk.count()) {
      load_keys(i + 1);
    }
    const auto k = memory.k(i & 1);
    const auto v = memory.v(i & 1);
    float s[keys / 8][4];
    product_of_rows(s, memory.q(), warp_row, k);
#pragma unroll
    for (int n = 0; n < keys / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        s[n][e] *= to_base_2;
      }
    }
    const bool full = walk.is_full(i);
    Span spans[2];
    bool by_pairs = false;
    if (!full) {
      load_spans(p, p.sets[walk.set(i)], lane_row, walk.key(i), spans);
      mask_scores<keys>(s, spans);
      // 0 times infinity must not reach a row that does not see the key.
      by_pairs = __syncthreads_or(v.some_not_finite());
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = row_max[half];
#pragma unroll
      for (int n = 0; n < keys / 8; ++n) {
        most = fmaxf(most, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
      }
      most = quad_max(most);
      const float shift = most == -INFINITY ? 0 : most;
      const float factor = exp2_approximate(row_max[half] - shift);
      row_max[half] = most;
      float added = 0;
#pragma unroll
      for (int n = 0; n < keys / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[n][2 * half + e];
          x = exp2_approximate(x - shift);
          added += x;
        }
      }
      sum[half] = sum[half] * factor + added;
#pragma unroll
      for (int n = 0; n < columns / 8; ++n) {
        out[n][2 * half] *= factor;
        out[n][2 * half + 1] *= factor;
      }
    }
    if (by_pairs) {
      add_product_seen<columns>(
          out, s, v, channel, memory.scratch_of(warp),
          [&](int half, int key) { return spans[half].begin <= key && key < spans[half].end; });
    } else {
      add_product<columns>(out, s, v, channel);
    }
  }

  float z_state[2];
  load_states(p, lane_row, head, z_state);
  __syncthreads();
  float z[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    sum[half] = quad_sum(sum[half]);
    z[half] = (row_max[half] + log2f(sum[half])) * 0.693147180559945309f;
  }
  write_output<float, columns>(p, lane_row, head, channel, out, sum, z, z_state,
                               warp % Shape::parts == 0);
}

}  // namespace

TileSizes forward_tiles(int head_dim) {
  TileSizes tiles;
  for_channels(head_dim, [&](auto channels) {
    tiles = {ForwardShape<channels.value>::rows, 0, 0};
  });
  return tiles;
}

void launch_forward(const Problem& problem, cudaStream_t stream) {
  if (problem.rows == 0) {
    return;
  }
  for_channels(problem.head_dim, [&](auto channels) {
    constexpr int bytes = ForwardMemory<channels.value>::bytes;
    static_assert(bytes <= 227 * 1024);
    const auto kernel = forward_kernel<channels.value>;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
          "shared memory of the forward");
    const dim3 grid(problem.row_tile_count * problem.group(), problem.kv_heads);
    kernel<<<grid, threads, bytes, stream>>>(problem);
    check(cudaGetLastError(), "launch of the forward");
  });
}

}  // namespace bdlm::cuda
