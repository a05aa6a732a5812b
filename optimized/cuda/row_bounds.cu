// Bounds and deviations of LSE, O and dQ: three walks over the keys of a row, since the errors of a
// pair depend on that of z, and those of dS on delta's.

#include "optimized/cuda/failure.h"
#include "optimized/cuda/key_walk.cuh"
#include "optimized/cuda/pair_sums.cuh"
#include "optimized/cuda/rounding_model.cuh"

namespace bdlm::cuda {
namespace {

enum class Stage { scores, output, query_gradient };

/// Sums over the keys of the two rows of a lane.
struct RowSums {
  double first[2] = {0, 0};   ///< of scores: p e; of the output: delta's error
  double second[2] = {0, 0};  ///< of scores: p^2 var(s); of the output: delta's variance
  double third[2] = {0, 0};   ///< of the output: p^2 var(s)
};

/// What one pair adds to the row's sums and to the products with |x|, x^2 and x, x being V or K.
struct PairWeights {
  double size = 0, square = 0, itself = 0;
};

template <Stage stage>
__device__ PairWeights pair_weights(const RoundingModel& model, const bdlm_error_model& m, double n,
                                    const PairSums& score, const PairSums& dp, const RowModel& row,
                                    double scale, double (&sums)[3]) {
  PairWeights w;
  const double p = model.probability(score, row.z);
  const double score_variance = model.score_variance(score, row.z);
  if (stage == Stage::scores) {
    sums[0] += p * model.score_error(score, row.z);
    sums[1] += p * p * score_variance;
    return w;
  }
  const double relative = model.probability_error(score, row);
  const double chain = model.chain(n) * model.u();
  const double chain_variance = model.chain_variance(n);
  if (stage == Stage::output) {
    const double merged = model.merges() * model.variance(model.u()) *
                          (row.z * row.z + m.exp_roundings * m.exp_roundings);
    w.size = p * (m.p + chain + relative) + m.tiny_p;
    w.itself = p * p * score_variance;
    w.square =
        p * p * (model.variance(m.p) + chain_variance + merged) + m.tiny_p * m.tiny_p + w.itself;
    const double apart = dp.sum - row.delta;
    sums[0] += p * fabs(dp.sum) * (m.p + relative) +
               (model.d() + model.chain(n)) * model.u() * p * dp.size + m.tiny_p * fabs(dp.sum);
    sums[1] += p * p *
                   (model.variance(m.p) * dp.sum * dp.sum + score_variance * apart * apart +
                    (model.variance(model.u()) * model.d() / 2 + chain_variance) * dp.squares) +
               m.tiny_p * m.tiny_p * dp.sum * dp.sum;
    sums[2] += w.itself;
    return w;
  }
  const double ds = model.ds(p, dp.sum, row);
  w.size = model.ds_error(p, ds, relative, dp, row) + chain * fabs(ds);
  w.square = model.ds_variance(p, ds, score_variance, dp) + chain_variance * ds * ds;
  w.itself = scale * p;
  return w;
}

template <int channels, Stage stage>
class RowBounds {
 public:
  using Shape = BoundShape<channels>;
  static constexpr int columns = Shape::part_channels;

  __device__ explicit RowBounds(const BoundsProblem& b)
      : b_(b), model_(b.model, b.call.scale, b.call.head_dim) {}

  __device__ void run(const BoundMemory<channels>& memory) {
    const Problem& p = b_.call;
    const int group = p.group();
    const int row_tile = p.row_tiles[blockIdx.x / group];
    const int kv_head = static_cast<int>(blockIdx.y);
    head_ = kv_head * group + static_cast<int>(blockIdx.x % group);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int own_row = warp / Shape::parts * 16;
    part_ = warp % Shape::parts;
    const int64_t tile_row = int64_t{row_tile} * Shape::own;
    lane_row_ = tile_row + own_row + (threadIdx.x & 31) / 4;
    const KeyWalk<Shape::streamed> walk(p, row_tile);
    load_rows();
    memory.own(0).load(p.q, tile_row, 0, p.rows, head_, p.head_dim);
    memory.own(1).load(p.d_o, tile_row, 0, p.rows, head_, p.head_dim);
    RowSums sums;
    for (int i = 0; i < walk.count(); ++i) {
      const KeySet& set = p.sets[walk.set(i)];
      const Cover& cover = walk.cover(i);
      __syncthreads();
      memory.streamed(0).load(set.k, walk.key(i), cover.begin, cover.end, kv_head, p.head_dim);
      memory.streamed(1).load(set.v, walk.key(i), cover.begin, cover.end, kv_head, p.head_dim);
      __syncthreads();
      const TileSums score = sum_pairs(memory, memory.own(0), own_row, memory.streamed(0));
      TileSums dp{};
      if (stage != Stage::scores) {
        dp = sum_pairs(memory, memory.own(1), own_row, memory.streamed(1));
      }
      Span spans[2];
      load_spans(p, set, lane_row_, walk.key(i), spans);
      double size[4], square[4], itself[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int half = e >> 1;
        const int key = 2 * static_cast<int>(threadIdx.x & 3) + (e & 1);
        PairWeights w;
        if (spans[half].begin <= key && key < spans[half].end) {
          double added[3] = {0, 0, 0};
          w = pair_weights<stage>(
              model_, b_.model, keys_[half], {score.sum[e], score.size[e], score.squares[e]},
              {dp.sum[e], dp.size[e], dp.squares[e]}, rows_[half], p.scale, added);
          sums.first[half] += added[0];
          sums.second[half] += added[1];
          sums.third[half] += added[2];
        }
        size[e] = w.size;
        square[e] = w.square;
        itself[e] = w.itself;
      }
      if (stage != Stage::scores) {
        const auto x = memory.streamed(stage == Stage::output ? 1 : 0);
        add_mapped<columns>(of_size_, size, x, part_ * columns, Size());
        add_mapped<columns>(of_square_, square, x, part_ * columns, Square());
        add_mapped<columns>(of_itself_, itself, x, part_ * columns, Itself());
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      finish(half, quad_sum(sums.first[half]), quad_sum(sums.second[half]),
             quad_sum(sums.third[half]));
    }
  }

 private:
  __device__ void load_rows() {
    const Problem& p = b_.call;
    for (int half = 0; half < 2; ++half) {
      const int64_t row = lane_row_ + 8 * half;
      const int64_t at = head_ * p.padded_rows + row;
      double keys = 0;
      for (int s = 0; s < p.set_count; ++s) {
        keys += p.sets[s].spans[row].end - p.sets[s].spans[row].begin;
      }
      keys_[half] = keys;
      RowModel& model = rows_[half];
      model.z = keys == 0 ? 0 : static_cast<const double*>(p.shift)[at];
      model.delta = static_cast<const double*>(p.delta)[at];
      if (stage != Stage::scores) {
        model.z_error = b_.z_error[at];
        model.z_variance = b_.z_variance[at];
      }
      if (stage == Stage::query_gradient) {
        model.delta_error = b_.delta_error[at];
        model.delta_variance = b_.delta_variance[at];
      }
    }
  }

  __device__ void finish(int half, double first, double second, double third) {
    const Problem& p = b_.call;
    const bdlm_error_model& m = b_.model;
    const int64_t row = lane_row_ + 8 * half;
    const int64_t at = head_ * p.padded_rows + row;
    const int t = threadIdx.x & 3;
    const bool writes = part_ == 0 && t == 0;
    const double n = keys_[half];
    const bool sees = n > 0 && row < p.rows;
    const RowModel& model = rows_[half];
    if (stage == Stage::scores) {
      const double u = model_.u();
      const double z_variance = second +
                                model_.variance(u) * (1 + model_.merges()) *
                                    (model.z * model.z + m.exp_roundings * m.exp_roundings) +
                                model_.chain_variance(n);
      if (writes) {
        b_.z_error[at] = sees ? first + model_.chain(n) * u : 0;
        b_.z_variance[at] = sees ? z_variance : 0;
        if (row < p.rows) {
          store_number(b_.lse_bound, row, head_, sees ? first + model_.lse_chain(n) * u : 0);
          store_number(b_.lse_deviation, row, head_, sees ? sqrt(z_variance) : 0);
        }
      }
      return;
    }
    if (stage == Stage::output && writes) {
      for (int c = 0; sees && c < p.head_dim; ++c) {
        const double o =
            load_element<double>(p.o.data, p.o.element, offset_of(p.o, row, head_) + c);
        const double d_o =
            load_element<double>(p.d_o.data, p.d_o.element, offset_of(p.d_o, row, head_) + c);
        first += m.o * fabs(d_o * o) + fabs(d_o) * m.tiny_o;
        second += model_.variance(m.o) * d_o * o * d_o * o + d_o * d_o * m.tiny_o * m.tiny_o;
      }
      b_.delta_error[at] = sees ? first : 0;
      b_.delta_variance[at] = sees ? second : 0;
    }
    if (row >= p.rows) {
      return;
    }
    const BoundPair& to = stage == Stage::output ? b_.o : b_.dq;
    const HeadRows& values = stage == Stage::output ? p.o : p.dq;
#pragma unroll
    for (int i = 0; i < columns / 4; ++i) {
      const int c = part_ * columns + 8 * (i >> 1) + 2 * t + (i & 1);
      if (c >= p.head_dim) {
        continue;
      }
      // Constant indices after unrolling, for either half.
      const double size = half == 0 ? of_size_[i >> 1][i & 1] : of_size_[i >> 1][2 + (i & 1)];
      const double square = half == 0 ? of_square_[i >> 1][i & 1] : of_square_[i >> 1][2 + (i & 1)];
      const double itself = half == 0 ? of_itself_[i >> 1][i & 1] : of_itself_[i >> 1][2 + (i & 1)];
      const double x =
          load_element<double>(values.data, values.element, offset_of(values, row, head_) + c);
      double bound = 0, variance = 0;
      if (sees && stage == Stage::output) {
        const double merged = model_.merges() * model_.variance(model_.u()) *
                              (model.z * model.z + m.exp_roundings * m.exp_roundings);
        bound = size + model_.merges() * m.tiny_partial_o;
        bound += m.o * (fabs(x) + bound) + m.tiny_o;
        // sum b (v - o)^2 = sum b v^2 - 2 o sum b v + o^2 sum b, b = p^2 var(s)
        variance = fmax(0.0, square - 2 * x * itself + x * x * third) +
                   x * x * (model_.chain_variance(n) + model_.variance(m.o) + merged) +
                   m.tiny_o * m.tiny_o + model_.merges() * m.tiny_partial_o * m.tiny_partial_o;
      } else if (sees) {
        bound = size + m.gradient * (fabs(x) + size) + m.tiny_gradient;
        variance =
            square + itself * itself * model.delta_variance +
            x * x * (model.z_variance + model_.variance(m.gradient) + model_.chain_variance(n)) +
            m.tiny_gradient * m.tiny_gradient;
      }
      store_element(to.bound.data, to.bound.element, offset_of(to.bound, row, head_) + c, bound);
      store_element(to.deviation.data, to.deviation.element,
                    offset_of(to.deviation, row, head_) + c, sqrt(variance));
    }
  }

  const BoundsProblem& b_;
  RoundingModel model_;
  RowModel rows_[2];
  double keys_[2];
  int head_ = 0, part_ = 0;
  int64_t lane_row_ = 0;
  double of_size_[columns / 8][4] = {}, of_square_[columns / 8][4] = {},
                            of_itself_[columns / 8][4] = {};
};

template <int channels, Stage stage>
__global__ void __launch_bounds__(threads, 1)
    row_bounds_kernel(const __grid_constant__ BoundsProblem b) {
  extern __shared__ __align__(128) double shared_doubles[];
  RowBounds<channels, stage>(b).run({shared_doubles});
}

template <int channels, Stage stage>
void launch(const BoundsProblem& problem, cudaStream_t stream) {
  constexpr int bytes = BoundMemory<channels>::doubles * 8;
  static_assert(bytes <= 227 * 1024);
  const auto kernel = row_bounds_kernel<channels, stage>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "shared memory of bounds of rows");
  const dim3 grid(problem.call.row_tile_count * problem.call.group(), problem.call.kv_heads);
  kernel<<<grid, threads, bytes, stream>>>(problem);
  check(cudaGetLastError(), "launch of bounds of rows");
}

}  // namespace

TileSizes bound_tiles(int head_dim) {
  TileSizes tiles;
  for_channels(head_dim, [&](auto channels) {
    using Shape = BoundShape<channels.value>;
    tiles = {Shape::own, Shape::own, Shape::streamed};
  });
  return tiles;
}

void launch_row_bounds(const BoundsProblem& problem, cudaStream_t stream) {
  if (problem.call.rows == 0) {
    return;
  }
  for_channels(problem.call.head_dim, [&](auto channels) {
    launch<channels.value, Stage::scores>(problem, stream);
    launch<channels.value, Stage::output>(problem, stream);
    launch<channels.value, Stage::query_gradient>(problem, stream);
  });
}

}  // namespace bdlm::cuda
