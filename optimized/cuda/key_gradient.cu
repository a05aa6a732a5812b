// dK and dV: bf16 on tensor cores, sums in fp32.
//
// A CTA has a tile of keys of one KV head and walks over the query heads of its group and the tiles
// of rows that see any of its keys, in one order, so that sums are the same in every run. Scores
// are computed transposed (keys by rows): P^T and dS^T are left operands as they come.

#include "optimized/cuda/attention_kernels.h"
#include "optimized/cuda/failure.h"
#include "optimized/cuda/row_list.cuh"
#include "optimized/cuda/seen_product.cuh"
#include "optimized/cuda/shared_tile.cuh"
#include "optimized/cuda/tile_shapes.h"

namespace bdlm::cuda {
namespace {

constexpr int list_capacity = 1024;

template <int channels>
struct KeyGradientMemory {
  using Shape = KeyGradientShape<channels>;
  using Keys = SharedTile<Shape::keys, channels>;
  using Queries = SharedTile<Shape::rows, channels>;
  using List = RowList<threads, list_capacity>;
  static constexpr int scratch = 16 * Shape::rows;  // of a warp
  static constexpr int terms = 4 * 2 * 2 * Shape::rows;
  static constexpr int tiles = 2 * Keys::bytes + 4 * Queries::bytes;
  static constexpr int bytes = tiles + warps * scratch * 2 + terms + static_cast<int>(sizeof(List));

  bf16* memory;
  __device__ Keys k() const { return {memory}; }
  __device__ Keys v() const { return {memory + Keys::bytes / 2}; }
  __device__ Queries q(int stage) const { return {memory + Keys::bytes + stage * Queries::bytes}; }
  __device__ Queries d_o(int stage) const { return {q(stage).data + Queries::bytes / 2}; }
  __device__ bf16* scratch_of(int warp) const { return memory + tiles / 2 + warp * scratch; }
  /// Of the rows of a stage.
  __device__ float* shift(int stage) const {
    return reinterpret_cast<float*>(memory + tiles / 2 + warps * scratch) + stage * 2 * Shape::rows;
  }
  __device__ float* delta(int stage) const { return shift(stage) + Shape::rows; }
  __device__ List& list() const { return *reinterpret_cast<List*>(shift(2)); }
};

/// Writes x (16 x columns) times `factor` for keys `first` and `first` + 8.
template <int columns>
__device__ void write_key_gradient(const Problem& p, const HeadRows& to, int64_t keys,
                                   int64_t first, int kv_head, int channel,
                                   const float (&x)[columns / 8][4], float factor) {
  const int t = threadIdx.x & 3;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t key = first + 8 * half;
    if (key >= keys) {
      continue;
    }
    const int64_t at = offset_of(to, key, kv_head);
#pragma unroll
    for (int n = 0; n < columns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int c = channel + 8 * n + 2 * t + e;
        if (c < p.head_dim) {
          store_element(to.data, to.element, at + c, x[n][2 * half + e] * factor);
        }
      }
    }
  }
}

template <int channels>
__global__ void __launch_bounds__(threads, 1)
    key_gradient_kernel(const __grid_constant__ Problem p) {
  if (p.only_if != nullptr && *p.only_if == 0) {
    return;
  }
  using Shape = KeyGradientShape<channels>;
  constexpr int rows = Shape::rows;
  constexpr int columns = Shape::part_channels;
  extern __shared__ __align__(128) bf16 shared[];
  const KeyGradientMemory<channels> memory{shared};
  const KeyTile tile = p.key_tiles[blockIdx.x];
  const KeySet& set = p.sets[tile.set];
  const int kv_head = static_cast<int>(blockIdx.y);
  const int group = p.group();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_key = warp / Shape::parts * 16;
  const int channel = warp % Shape::parts * columns;
  const int tile_key = tile.tile * Shape::keys;
  const int lane_key = tile_key + warp_key + static_cast<int>(threadIdx.x & 31) / 4;
  const int t = threadIdx.x & 3;
  const float to_base_2 = static_cast<float>(p.scale * 1.4426950408889634);

  memory.k().load(set.k, tile_key, 0, set.keys, kv_head, p.head_dim, p.vector_loads);
  memory.v().load(set.v, tile_key, 0, set.keys, kv_head, p.head_dim, p.vector_loads);
  commit_copies();
  float dk[columns / 8][4] = {};
  float dv[columns / 8][4] = {};
  for (int first = 0; first < p.streamed_count; first += list_capacity) {
    const int count =
        memory.list().find(set.streamed, first, p.streamed_count, tile_key, tile_key + Shape::keys);
    const auto head_of = [&](int i) { return kv_head * group + i / count; };
    const auto tile_of = [&](int i) { return memory.list().tiles[i % count]; };
    const auto load_rows = [&](int i) {
      const int64_t row = int64_t{tile_of(i)} * rows;
      const int64_t head = head_of(i);
      const int stage = i & 1;
      memory.q(stage).load(p.q, row, 0, p.rows, head, p.head_dim, p.vector_loads);
      memory.d_o(stage).load(p.d_o, row, 0, p.rows, head, p.head_dim, p.vector_loads);
      const int part = static_cast<int>(threadIdx.x);
      if (part < rows / 4) {
        const int64_t at = head * p.padded_rows + row + 4 * part;
        copy_async_16(memory.shift(stage) + 4 * part, static_cast<const float*>(p.shift) + at,
                      true);
        copy_async_16(memory.delta(stage) + 4 * part, static_cast<const float*>(p.delta) + at,
                      true);
      }
      commit_copies();
    };
    if (count > 0) {
      load_rows(0);
    }
    for (int i = 0; i < group * count; ++i) {
      wait_for_copies();
      __syncthreads();  // tile i is there, and nobody reads tile i - 1 any more
      if (i + 1 < group * count) {
        load_rows(i + 1);
      }
      const int stage = i & 1;
      const Cover cover = set.streamed[tile_of(i)];
      const bool full = cover.full_begin <= tile_key && tile_key + Shape::keys <= cover.full_end;
      const Span* spans = set.spans + int64_t{tile_of(i)} * rows;
      // 0 times infinity must not reach a key that the row does not see.
      const bool by_pairs = !full && __syncthreads_or(memory.q(stage).some_not_finite() ||
                                                      memory.d_o(stage).some_not_finite());
      float pt[rows / 8][4], ds[rows / 8][4];
      product_of_rows(pt, memory.k(), warp_key, memory.q(stage));
      product_of_rows(ds, memory.v(), warp_key, memory.d_o(stage));
#pragma unroll
      for (int n = 0; n < rows / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int row = 8 * n + 2 * t + e;
          const float shift = memory.shift(stage)[row];
          const float delta = memory.delta(stage)[row];
          Span span{0, 0x7fffffff};
          if (!full) {
            span = spans[row];
          }
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int key = lane_key + 8 * half;
            const bool seen = span.begin <= key && key < span.end && shift != INFINITY;
            float& x = pt[n][2 * half + e];
            float& y = ds[n][2 * half + e];
            x = seen ? exp2_gradual(x * to_base_2 - shift) : 0;
            y = seen ? x * (y - delta) : 0;
          }
        }
      }
      if (by_pairs) {
        const auto seen = [&](int half, int row) {
          const int key = lane_key + 8 * half;
          return spans[row].begin <= key && key < spans[row].end &&
                 memory.shift(stage)[row] != INFINITY;
        };
        add_product_seen<columns>(dv, pt, memory.d_o(stage), channel, memory.scratch_of(warp),
                                  seen);
        add_product_seen<columns>(dk, ds, memory.q(stage), channel, memory.scratch_of(warp), seen);
      } else {
        add_product<columns>(dv, pt, memory.d_o(stage), channel);
        add_product<columns>(dk, ds, memory.q(stage), channel);
      }
    }
    __syncthreads();  // the list is read no more
  }
  wait_for_copies();
  write_key_gradient<columns>(p, set.dv, set.keys, lane_key, kv_head, channel, dv, 1);
  write_key_gradient<columns>(p, set.dk, set.keys, lane_key, kv_head, channel, dk,
                              static_cast<float>(p.scale));
}

}  // namespace

TileSizes backward_tiles(int head_dim) {
  TileSizes tiles;
  for_channels(head_dim, [&](auto channels) {
    tiles = {QueryGradientShape<channels.value>::rows, KeyGradientShape<channels.value>::keys,
             KeyGradientShape<channels.value>::rows};
  });
  return tiles;
}

void launch_key_gradient(const Problem& problem, cudaStream_t stream) {
  if (problem.key_tile_count == 0) {
    return;
  }
  for_channels(problem.head_dim, [&](auto channels) {
    constexpr int bytes = KeyGradientMemory<channels.value>::bytes;
    static_assert(bytes <= 227 * 1024);
    const auto kernel = key_gradient_kernel<channels.value>;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
          "shared memory of dK and dV");
    const dim3 grid(problem.key_tile_count, problem.kv_heads);
    kernel<<<grid, threads, bytes, stream>>>(problem);
    check(cudaGetLastError(), "launch of dK and dV");
  });
}

void launch_backward(const Problem& problem, cudaStream_t stream) {
  launch_row_terms(problem, stream);
  launch_query_gradient(problem, stream);
  launch_key_gradient(problem, stream);
}

}  // namespace bdlm::cuda
