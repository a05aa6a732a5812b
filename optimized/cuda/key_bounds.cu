// Bounds and deviations of dK and dV: sums over the rows that see a key and the heads of its group.

#include "optimized/cuda/failure.h"
#include "optimized/cuda/pair_sums.cuh"
#include "optimized/cuda/rounding_model.cuh"
#include "optimized/cuda/row_list.cuh"

namespace bdlm::cuda {
namespace {

constexpr int list_capacity = 1024;
using List = RowList<threads, list_capacity>;

/// The weights of one pair on |x| and x^2, x being Q for dK and dO for dV.
template <bool of_values>
__device__ void key_weights(const RoundingModel& model, const bdlm_error_model& m, double terms,
                            double scale, const PairSums& score, const PairSums& dp,
                            const RowModel& row, double& size, double& square) {
  const double p = model.probability(score, row.z);
  const double relative = model.probability_error(score, row);
  const double score_variance = model.score_variance(score, row.z);
  const double chain = model.chain(terms) * model.u();
  const double chain_variance = model.chain_variance(terms);
  if (of_values) {
    size = p * (m.p + relative + chain) + m.tiny_p;
    square = p * p * (model.variance(m.p) + score_variance + row.z_variance + chain_variance) +
             m.tiny_p * m.tiny_p;
    return;
  }
  const double ds = model.ds(p, dp.sum, row);
  size = model.ds_error(p, ds, relative, dp, row) + chain * fabs(ds);
  square = model.ds_variance(p, ds, score_variance, dp) +
           ds * ds * (row.z_variance + chain_variance) + p * scale * p * scale * row.delta_variance;
}

template <int channels, bool of_values>
__global__ void __launch_bounds__(threads, 1)
    key_bounds_kernel(const __grid_constant__ BoundsProblem b) {
  using Shape = BoundShape<channels>;
  constexpr int columns = Shape::part_channels;
  extern __shared__ __align__(128) double shared_doubles[];
  const BoundMemory<channels> memory{shared_doubles};
  List& list = *reinterpret_cast<List*>(memory.end());
  const Problem& p = b.call;
  const bdlm_error_model& m = b.model;
  const RoundingModel model(m, p.scale, p.head_dim);
  const KeyTile tile = p.key_tiles[blockIdx.x];
  const KeySet& set = p.sets[tile.set];
  const int kv_head = static_cast<int>(blockIdx.y);
  const int group = p.group();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int own_key = warp / Shape::parts * 16;
  const int channel = warp % Shape::parts * columns;
  const int tile_key = tile.tile * Shape::own;
  const int lane_key = tile_key + own_key + static_cast<int>(threadIdx.x & 31) / 4;
  const int t = threadIdx.x & 3;
  double terms[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int key = lane_key + 8 * half;
    terms[half] = key < set.keys ? double{1} * b.rows_of_key[tile.set][key] * group : 0;
  }
  memory.own(0).load(set.k, tile_key, 0, set.keys, kv_head, p.head_dim);
  memory.own(1).load(set.v, tile_key, 0, set.keys, kv_head, p.head_dim);
  double of_size[columns / 8][4] = {};
  double of_square[columns / 8][4] = {};
  for (int first = 0; first < p.streamed_count; first += list_capacity) {
    const int count =
        list.find(set.streamed, first, p.streamed_count, tile_key, tile_key + Shape::own);
    for (int i = 0; i < group * count; ++i) {
      const int64_t row_first = int64_t{list.tiles[i % count]} * Shape::streamed;
      const int64_t head = kv_head * group + i / count;
      __syncthreads();
      memory.streamed(0).load(p.q, row_first, 0, p.rows, head, p.head_dim);
      memory.streamed(1).load(p.d_o, row_first, 0, p.rows, head, p.head_dim);
      __syncthreads();
      const TileSums score = sum_pairs(memory, memory.own(0), own_key, memory.streamed(0));
      TileSums dp{};
      if (!of_values) {
        dp = sum_pairs(memory, memory.own(1), own_key, memory.streamed(1));
      }
      double size[4] = {0, 0, 0, 0};
      double square[4] = {0, 0, 0, 0};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int64_t row = row_first + 2 * t + (e & 1);
        const int key = lane_key + 8 * (e >> 1);
        const Span span = set.spans[row];
        if (span.begin <= key && key < span.end) {
          const int64_t at = head * p.padded_rows + row;
          const RowModel of_row{static_cast<const double*>(p.shift)[at],
                                static_cast<const double*>(p.delta)[at],
                                b.z_error[at],
                                b.z_variance[at],
                                b.delta_error[at],
                                b.delta_variance[at]};
          key_weights<of_values>(
              model, m, terms[e >> 1], p.scale, {score.sum[e], score.size[e], score.squares[e]},
              {dp.sum[e], dp.size[e], dp.squares[e]}, of_row, size[e], square[e]);
        }
      }
      const auto x = memory.streamed(of_values ? 1 : 0);
      add_mapped<columns>(of_size, size, x, channel, Size());
      add_mapped<columns>(of_square, square, x, channel, Square());
    }
    __syncthreads();
  }
  const BoundPair& to = of_values ? b.dv[tile.set] : b.dk[tile.set];
  const HeadRows& values = of_values ? set.dv : set.dk;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t key = lane_key + 8 * half;
#pragma unroll
    for (int i = 0; i < columns / 4; ++i) {
      const int c = channel + 8 * (i >> 1) + 2 * t + (i & 1);
      if (key >= set.keys || c >= p.head_dim) {
        continue;
      }
      const double x =
          load_element<double>(values.data, values.element, offset_of(values, key, kv_head) + c);
      const double size = of_size[i >> 1][2 * half + (i & 1)];
      double bound = 0;
      double variance = 0;
      if (terms[half] > 0) {
        bound = size + m.gradient * (fabs(x) + size) + m.tiny_gradient;
        variance = of_square[i >> 1][2 * half + (i & 1)] +
                   x * x * (model.chain_variance(terms[half]) + model.variance(m.gradient)) +
                   m.tiny_gradient * m.tiny_gradient;
      }
      store_element(to.bound.data, to.bound.element, offset_of(to.bound, key, kv_head) + c, bound);
      store_element(to.deviation.data, to.deviation.element,
                    offset_of(to.deviation, key, kv_head) + c, sqrt(variance));
    }
  }
}

template <int channels, bool of_values>
void launch(const BoundsProblem& problem, cudaStream_t stream) {
  constexpr int bytes = BoundMemory<channels>::doubles * 8 + static_cast<int>(sizeof(List));
  static_assert(bytes <= 227 * 1024);
  const auto kernel = key_bounds_kernel<channels, of_values>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "shared memory of bounds of keys");
  const dim3 grid(problem.call.key_tile_count, problem.call.kv_heads);
  kernel<<<grid, threads, bytes, stream>>>(problem);
  check(cudaGetLastError(), "launch of bounds of keys");
}

}  // namespace

void launch_key_bounds(const BoundsProblem& problem, cudaStream_t stream) {
  if (problem.call.key_tile_count == 0) {
    return;
  }
  for_channels(problem.call.head_dim, [&](auto channels) {
    launch<channels.value, false>(problem, stream);
    launch<channels.value, true>(problem, stream);
  });
}

void launch_bounds(const BoundsProblem& problem, cudaStream_t stream) {
  launch_row_bounds(problem, stream);
  launch_key_bounds(problem, stream);
}

}  // namespace bdlm::cuda
