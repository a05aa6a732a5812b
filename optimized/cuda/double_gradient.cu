// dQ, and dK and dV, in double: the oracle. As query_gradient.cu and key_gradient.cu, with plain
// copies and exp.

#include "optimized/cuda/attention_kernels.h"
#include "optimized/cuda/double_tile.cuh"
#include "optimized/cuda/failure.h"
#include "optimized/cuda/key_walk.cuh"
#include "optimized/cuda/row_list.cuh"
#include "optimized/cuda/seen_product.cuh"
#include "optimized/cuda/tile_shapes.h"

namespace bdlm::cuda {
namespace {

constexpr int list_capacity = 1024;

template <int channels>
struct DoubleGradientMemory {
  using Shape = DoubleGradientShape<channels>;
  using Own = DoubleTile<Shape::own, channels>;
  using Streamed = DoubleTile<Shape::streamed, channels>;
  using List = RowList<threads, list_capacity>;
  static constexpr int scratch = 16 * Shape::streamed;  // of a warp
  static constexpr int doubles = 2 * Own::size + 2 * Streamed::size + warps * scratch;
  static constexpr int bytes = doubles * 8 + static_cast<int>(sizeof(List));

  double* memory;
  __device__ Own own(int i) const { return {memory + i * Own::size}; }
  __device__ Streamed streamed(int i) const {
    return {memory + 2 * Own::size + i * Streamed::size};
  }
  __device__ double* scratch_of(int warp) const {
    return memory + 2 * Own::size + 2 * Streamed::size + warp * scratch;
  }
  __device__ List& list() const { return *reinterpret_cast<List*>(memory + doubles); }
};

/// Writes factor times x (16 x columns), and the state where there is one, in rows `first` and
/// `first` + 8.
template <int columns>
__device__ void write_gradient(const HeadRows& to, const HeadRows& state, int64_t rows,
                               int64_t first, int head, int channel, int head_dim,
                               const double (&x)[columns / 8][4], double factor) {
  const int t = threadIdx.x & 3;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = first + 8 * half;
    if (row >= rows) {
      continue;
    }
    const int64_t from = offset_of(state, row, head);
    const int64_t at = offset_of(to, row, head);
#pragma unroll
    for (int n = 0; n < columns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int c = channel + 8 * n + 2 * t + e;
        if (c < head_dim) {
          double value = x[n][2 * half + e] * factor;
          if (state.data != nullptr) {
            value += load_element<double>(state.data, state.element, from + c);
          }
          store_element(to.data, to.element, at + c, value);
        }
      }
    }
  }
}

template <int channels>
__global__ void __launch_bounds__(threads, 1)
    double_query_gradient_kernel(const __grid_constant__ Problem p) {
  using Shape = DoubleGradientShape<channels>;
  constexpr int keys = Shape::streamed;
  constexpr int columns = Shape::part_channels;
  extern __shared__ __align__(128) double shared_doubles[];
  const DoubleGradientMemory<channels> memory{shared_doubles};
  const int group = p.group();
  const int row_tile = p.row_tiles[blockIdx.x / group];
  const int kv_head = static_cast<int>(blockIdx.y);
  const int head = kv_head * group + static_cast<int>(blockIdx.x % group);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp / Shape::parts * 16;
  const int channel = warp % Shape::parts * columns;
  const int64_t tile_row = int64_t{row_tile} * Shape::own;
  const int64_t lane_row = tile_row + warp_row + (threadIdx.x & 31) / 4;
  const int t = threadIdx.x & 3;
  const auto q = memory.own(0);
  const auto d_o = memory.own(1);
  const auto k = memory.streamed(0);
  const auto v = memory.streamed(1);
  const KeyWalk<keys> walk(p, row_tile);

  double dq[columns / 8][4] = {};
  double shift[2], delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t at = head * p.padded_rows + lane_row + 8 * half;
    shift[half] = static_cast<const double*>(p.shift)[at];
    delta[half] = static_cast<const double*>(p.delta)[at];
  }
  if (walk.count() > 0) {
    q.load(p.q, tile_row, 0, p.rows, head, p.head_dim);
    d_o.load(p.d_o, tile_row, 0, p.rows, head, p.head_dim);
  }
  for (int i = 0; i < walk.count(); ++i) {
    const KeySet& set = p.sets[walk.set(i)];
    const Cover& cover = walk.cover(i);
    __syncthreads();  // nobody reads tile i - 1 any more
    k.load(set.k, walk.key(i), cover.begin, cover.end, kv_head, p.head_dim);
    v.load(set.v, walk.key(i), cover.begin, cover.end, kv_head, p.head_dim);
    __syncthreads();
    Span spans[2] = {{0, keys}, {0, keys}};
    bool by_pairs = false;
    if (!walk.is_full(i)) {
      load_spans(p, set, lane_row, walk.key(i), spans);
      by_pairs = __syncthreads_or(k.some_not_finite());
    }
    double ds[keys / 8][4], dp[keys / 8][4];
    product_of_rows(ds, q, warp_row, k);
    product_of_rows(dp, d_o, warp_row, v);
#pragma unroll
    for (int n = 0; n < keys / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int key = 8 * n + 2 * t + (e & 1);
        const Span& span = spans[e >> 1];
        const bool seen = span.begin <= key && key < span.end && shift[e >> 1] != INFINITY;
        ds[n][e] = seen ? exp(ds[n][e] * p.scale - shift[e >> 1]) * (dp[n][e] - delta[e >> 1]) : 0;
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
  write_gradient<columns>(p.dq, p.dq_state, p.rows, lane_row, head, channel, p.head_dim, dq,
                          p.scale);
}

template <int channels>
__global__ void __launch_bounds__(threads, 1)
    double_key_gradient_kernel(const __grid_constant__ Problem p) {
  using Shape = DoubleGradientShape<channels>;
  constexpr int rows = Shape::streamed;
  constexpr int columns = Shape::part_channels;
  extern __shared__ __align__(128) double shared_doubles[];
  const DoubleGradientMemory<channels> memory{shared_doubles};
  const KeyTile tile = p.key_tiles[blockIdx.x];
  const KeySet& set = p.sets[tile.set];
  const int kv_head = static_cast<int>(blockIdx.y);
  const int group = p.group();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_key = warp / Shape::parts * 16;
  const int channel = warp % Shape::parts * columns;
  const int tile_key = tile.tile * Shape::own;
  const int lane_key = tile_key + warp_key + static_cast<int>(threadIdx.x & 31) / 4;
  const int t = threadIdx.x & 3;
  const auto k = memory.own(0);
  const auto v = memory.own(1);
  const auto q = memory.streamed(0);
  const auto d_o = memory.streamed(1);

  k.load(set.k, tile_key, 0, set.keys, kv_head, p.head_dim);
  v.load(set.v, tile_key, 0, set.keys, kv_head, p.head_dim);
  double dk[columns / 8][4] = {};
  double dv[columns / 8][4] = {};
  for (int first = 0; first < p.streamed_count; first += list_capacity) {
    const int count =
        memory.list().find(set.streamed, first, p.streamed_count, tile_key, tile_key + Shape::own);
    for (int i = 0; i < group * count; ++i) {
      const int row_tile = memory.list().tiles[i % count];
      const int64_t row_first = int64_t{row_tile} * rows;
      const int64_t head = kv_head * group + i / count;
      __syncthreads();  // nobody reads the last tile any more
      q.load(p.q, row_first, 0, p.rows, head, p.head_dim);
      d_o.load(p.d_o, row_first, 0, p.rows, head, p.head_dim);
      __syncthreads();
      const Cover cover = set.streamed[row_tile];
      const bool full = cover.full_begin <= tile_key && tile_key + Shape::own <= cover.full_end;
      const bool by_pairs = !full && __syncthreads_or(q.some_not_finite() || d_o.some_not_finite());
      const Span* spans = set.spans + row_first;
      const double* shifts = static_cast<const double*>(p.shift) + head * p.padded_rows + row_first;
      const double* deltas = static_cast<const double*>(p.delta) + head * p.padded_rows + row_first;
      const auto seen = [&](int half, int row) {
        const int key = lane_key + 8 * half;
        return spans[row].begin <= key && key < spans[row].end && shifts[row] != INFINITY;
      };
      double pt[rows / 8][4], ds[rows / 8][4];
      product_of_rows(pt, k, warp_key, q);
      product_of_rows(ds, v, warp_key, d_o);
#pragma unroll
      for (int n = 0; n < rows / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int row = 8 * n + 2 * t + (e & 1);
          double& x = pt[n][e];
          double& y = ds[n][e];
          const bool counts = seen(e >> 1, row);
          x = counts ? exp(x * p.scale - shifts[row]) : 0;
          y = counts ? x * (y - deltas[row]) : 0;
        }
      }
      if (by_pairs) {
        add_product_seen<columns>(dv, pt, d_o, channel, memory.scratch_of(warp), seen);
        add_product_seen<columns>(dk, ds, q, channel, memory.scratch_of(warp), seen);
      } else {
        add_product<columns>(dv, pt, d_o, channel);
        add_product<columns>(dk, ds, q, channel);
      }
    }
    __syncthreads();  // the list is read no more
  }
  write_gradient<columns>(set.dv, {}, set.keys, lane_key, kv_head, channel, p.head_dim, dv, 1);
  write_gradient<columns>(set.dk, {}, set.keys, lane_key, kv_head, channel, p.head_dim, dk,
                          p.scale);
}

}  // namespace

TileSizes double_backward_tiles(int head_dim) {
  TileSizes tiles;
  for_channels(head_dim, [&](auto channels) {
    using Shape = DoubleGradientShape<channels.value>;
    tiles = {Shape::own, Shape::own, Shape::streamed};
  });
  return tiles;
}

void launch_double_query_gradient(const Problem& problem, cudaStream_t stream) {
  if (problem.rows == 0) {
    return;
  }
  for_channels(problem.head_dim, [&](auto channels) {
    constexpr int bytes = DoubleGradientMemory<channels.value>::bytes;
    static_assert(bytes <= 227 * 1024);
    const auto kernel = double_query_gradient_kernel<channels.value>;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
          "shared memory of dQ");
    const dim3 grid(problem.row_tile_count * problem.group(), problem.kv_heads);
    kernel<<<grid, threads, bytes, stream>>>(problem);
    check(cudaGetLastError(), "launch of dQ");
  });
}

void launch_double_key_gradient(const Problem& problem, cudaStream_t stream) {
  if (problem.key_tile_count == 0) {
    return;
  }
  for_channels(problem.head_dim, [&](auto channels) {
    constexpr int bytes = DoubleGradientMemory<channels.value>::bytes;
    const auto kernel = double_key_gradient_kernel<channels.value>;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
          "shared memory of dK and dV");
    const dim3 grid(problem.key_tile_count, problem.kv_heads);
    kernel<<<grid, threads, bytes, stream>>>(problem);
    check(cudaGetLastError(), "launch of dK and dV");
  });
}

void launch_double_backward(const Problem& problem, cudaStream_t stream) {
  launch_double_row_terms(problem, stream);
  launch_double_query_gradient(problem, stream);
  launch_double_key_gradient(problem, stream);
}

}  // namespace bdlm::cuda
