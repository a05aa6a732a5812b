#pragma once
// Tiles of the kernels of bounds: 16 rows or keys a warp by 8 of the others, with sums over
// channels of products, of their sizes and of their squares.

#include "optimized/cuda/double_tile.cuh"
#include "optimized/cuda/tile_shapes.h"

namespace bdlm::cuda {

/// `parts` warps share 16 rows of their own; each has some of the channels.
template <int channels>
struct BoundShape {
  static constexpr int part_channels = channels <= 256 ? 32 : 64;
  static constexpr int parts = channels / part_channels;
  static constexpr int own = 16 * warps / parts;
  static constexpr int streamed = 8;
};

template <int channels>
struct BoundMemory {
  using Shape = BoundShape<channels>;
  using Own = DoubleTile<Shape::own, channels>;
  using Streamed = DoubleTile<Shape::streamed, channels>;
  static constexpr int exchange = warps * 12 * 32;
  static constexpr int doubles = 2 * Own::size + 2 * Streamed::size + exchange;

  double* memory;
  __device__ Own own(int i) const { return {memory + i * Own::size}; }
  __device__ Streamed streamed(int i) const {
    return {memory + 2 * Own::size + i * Streamed::size};
  }
  __device__ double* exchanged() const { return memory + 2 * Own::size + 2 * Streamed::size; }
  __device__ double* end() const { return memory + doubles; }
};

/// A 16 x 8 tile in the layout of an accumulator.
struct TileSums {
  double sum[4], size[4], squares[4];
};

/// Of rows [own_row, own_row + 16) of a with the eight rows of b. Every warp sums over its part of
/// the channels; then the parts are added in order. For all threads of the CTA.
template <int channels, class Own, class Streamed>
__device__ TileSums sum_pairs(const BoundMemory<channels>& memory, const Own& a, int own_row,
                              const Streamed& b) {
  using Shape = BoundShape<channels>;
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int part = warp % Shape::parts;
  TileSums t{};
  const int first = part * Shape::part_channels + lane % 4;
#pragma unroll 4
  for (int c = first; c < first + Shape::part_channels; c += 4) {
    const double a0 = a.at(own_row + lane / 4, c);
    const double a1 = a.at(own_row + lane / 4 + 8, c);
    const double b0 = b.at(lane / 4, c);
    multiply_add(t.sum, a0, a1, b0);
    multiply_add(t.size, fabs(a0), fabs(a1), fabs(b0));
    multiply_add(t.squares, a0 * a0, a1 * a1, b0 * b0);
  }
  double* to = memory.exchanged() + warp * 12 * 32 + lane;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    to[e * 32] = t.sum[e];
    to[(4 + e) * 32] = t.size[e];
    to[(8 + e) * 32] = t.squares[e];
  }
  __syncthreads();
  t = {};
  for (int p = 0; p < Shape::parts; ++p) {
    const double* from = memory.exchanged() + (warp - part + p) * 12 * 32 + lane;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      t.sum[e] += from[e * 32];
      t.size[e] += from[(4 + e) * 32];
      t.squares[e] += from[(8 + e) * 32];
    }
  }
  __syncthreads();
  return t;
}

/// out (16 x columns) += weights (16 x 8) map(b) (8 x [first, first + columns)).
template <int columns, class Tile, class Map>
__device__ void add_mapped(double (&out)[columns / 8][4], const double (&weights)[4], const Tile& b,
                           int first, const Map& map) {
  const int g = (threadIdx.x & 31) >> 2;
  const int t = threadIdx.x & 3;
#pragma unroll
  for (int s = 0; s < 2; ++s) {
#pragma unroll
    for (int n = 0; n < columns / 8; ++n) {
      multiply_add(out[n], weights[s], weights[2 + s], map(b.at(2 * t + s, first + 8 * n + g)));
    }
  }
}

struct Itself {
  __device__ double operator()(double x) const { return x; }
};
struct Size {
  __device__ double operator()(double x) const { return fabs(x); }
};
struct Square {
  __device__ double operator()(double x) const { return x * x; }
};

}  // namespace bdlm::cuda
