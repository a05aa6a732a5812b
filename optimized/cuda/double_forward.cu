// Attention forward in double: the oracle. As attention_forward.cu, with plain copies and exp.

#include "optimized/cuda/attention_kernels.h"
#include "optimized/cuda/attention_output.cuh"
#include "optimized/cuda/double_tile.cuh"
#include "optimized/cuda/failure.h"
#include "optimized/cuda/key_walk.cuh"
#include "optimized/cuda/seen_product.cuh"
#include "optimized/cuda/tile_shapes.h"

namespace bdlm::cuda {
namespace {

template <int channels>
struct DoubleForwardMemory {
  using Shape = DoubleForwardShape<channels>;
  using Queries = DoubleTile<Shape::rows, channels>;
  using Keys = DoubleTile<Shape::keys, channels>;
  static constexpr int scratch = 16 * Shape::keys;  // of a warp
  static constexpr int bytes = (Queries::size + 2 * Keys::size + warps * scratch) * 8;

  double* memory;
  __device__ Queries q() const { return {memory}; }
  __device__ Keys k() const { return {memory + Queries::size}; }
  __device__ Keys v() const { return {memory + Queries::size + Keys::size}; }
  __device__ double* scratch_of(int warp) const {
    return memory + Queries::size + 2 * Keys::size + warp * scratch;
  }
};

template <int channels>
__global__ void __launch_bounds__(threads, 1)
    double_forward_kernel(const __grid_constant__ Problem p) {
  using Shape = DoubleForwardShape<channels>;
  constexpr int keys = Shape::keys;
  constexpr int columns = Shape::part_channels;
  extern __shared__ __align__(128) double shared_doubles[];
  const DoubleForwardMemory<channels> memory{shared_doubles};
  const int group = p.group();
  const int row_tile = p.row_tiles[blockIdx.x / group];
  const int kv_head = static_cast<int>(blockIdx.y);
  const int head = kv_head * group + static_cast<int>(blockIdx.x % group);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp / Shape::parts * 16;
  const int channel = warp % Shape::parts * columns;
  const int64_t tile_row = int64_t{row_tile} * Shape::rows;
  const int64_t lane_row = tile_row + warp_row + (threadIdx.x & 31) / 4;
  const int t = threadIdx.x & 3;
  const KeyWalk<keys> walk(p, row_tile);

  double out[columns / 8][4] = {};
  double row_max[2] = {-INFINITY, -INFINITY};
  double sum[2] = {0, 0};
  if (walk.count() > 0) {
    memory.q().load(p.q, tile_row, 0, p.rows, head, p.head_dim);
  }
  for (int i = 0; i < walk.count(); ++i) {
    const KeySet& set = p.sets[walk.set(i)];
    const Cover& cover = walk.cover(i);
    __syncthreads();  // nobody reads tile i - 1 any more
    memory.k().load(set.k, walk.key(i), cover.begin, cover.end, kv_head, p.head_dim);
    memory.v().load(set.v, walk.key(i), cover.begin, cover.end, kv_head, p.head_dim);
    __syncthreads();
    double s[keys / 8][4];
    product_of_rows(s, memory.q(), warp_row, memory.k());
    const bool full = walk.is_full(i);
    Span spans[2] = {{0, keys}, {0, keys}};
    bool by_pairs = false;
    if (!full) {
      load_spans(p, set, lane_row, walk.key(i), spans);
      by_pairs = __syncthreads_or(memory.v().some_not_finite());
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      double most = row_max[half];
#pragma unroll
      for (int n = 0; n < keys / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int key = 8 * n + 2 * t + e;
          double& x = s[n][2 * half + e];
          x = spans[half].begin <= key && key < spans[half].end ? x * p.scale : -INFINITY;
          most = most < x ? x : most;
        }
      }
      most = quad_max(most);
      const double shift = most == -INFINITY ? 0 : most;
      const double factor = exp(row_max[half] - shift);
      row_max[half] = most;
      sum[half] *= factor;
#pragma unroll
      for (int n = 0; n < keys / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          double& x = s[n][2 * half + e];
          x = exp(x - shift);
          sum[half] += x;
        }
      }
#pragma unroll
      for (int n = 0; n < columns / 8; ++n) {
        out[n][2 * half] *= factor;
        out[n][2 * half + 1] *= factor;
      }
    }
    if (by_pairs) {
      add_product_seen<columns>(
          out, s, memory.v(), channel, memory.scratch_of(warp),
          [&](int half, int key) { return spans[half].begin <= key && key < spans[half].end; });
    } else {
      add_product<columns>(out, s, memory.v(), channel);
    }
  }

  double z_state[2];
  load_states(p, lane_row, head, z_state);
  __syncthreads();
  double z[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    sum[half] = quad_sum(sum[half]);
    z[half] = row_max[half] + log(sum[half]);
  }
  write_output<double, columns>(p, lane_row, head, channel, out, sum, z, z_state,
                                warp % Shape::parts == 0);
}

}  // namespace

TileSizes double_forward_tiles(int head_dim) {
  TileSizes tiles;
  for_channels(head_dim, [&](auto channels) {
    tiles = {DoubleForwardShape<channels.value>::rows, 0, 0};
  });
  return tiles;
}

void launch_double_forward(const Problem& problem, cudaStream_t stream) {
  if (problem.rows == 0) {
    return;
  }
  for_channels(problem.head_dim, [&](auto channels) {
    constexpr int bytes = DoubleForwardMemory<channels.value>::bytes;
    static_assert(bytes <= 227 * 1024);
    const auto kernel = double_forward_kernel<channels.value>;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
          "shared memory of the forward");
    const dim3 grid(problem.row_tile_count * problem.group(), problem.kv_heads);
    kernel<<<grid, threads, bytes, stream>>>(problem);
    check(cudaGetLastError(), "launch of the forward");
  });
}

}  // namespace bdlm::cuda
