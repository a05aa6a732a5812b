#pragma once
// The product of weights and rows where some of the rows hold infinities or NaN, which only those
// who see them may get: 0 times infinity is NaN.

#include "optimized/cuda/tensor_core.cuh"

namespace bdlm::cuda {

template <class Weight, class Real>
__device__ Weight as_weight(Real x) {
  if constexpr (sizeof(Weight) == 2) {
    return __float2bfloat16_rn(x);
  } else {
    return x;
  }
}
template <class Real, class Weight>
__device__ Real as_real(Weight x) {
  if constexpr (sizeof(Weight) == 2) {
    return __bfloat162float(x);
  } else {
    return x;
  }
}

/// out (16 x columns) += x (16 x rows, rounded to Weight) b (rows x [first, first + columns)), pair
/// by pair: a pair counts only if seen(half, row), where `half` 0 and 1 are the lane's rows g and g
/// + 8 of x and `row` is one of b. scratch: 16 x rows of the warp's own.
template <int columns, class Real, int tiles, class Tile, class Weight, class Seen>
__device__ void add_product_seen(Real (&out)[columns / 8][4], const Real (&x)[tiles][4],
                                 const Tile& b, int first, Weight* scratch, const Seen& seen) {
  constexpr int rows = 8 * tiles;
  const int g = (threadIdx.x & 31) >> 2;
  const int t = threadIdx.x & 3;
#pragma unroll
  for (int n = 0; n < rows / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scratch[(g + 8 * (i >> 1)) * rows + 8 * n + 2 * t + (i & 1)] = as_weight<Weight>(x[n][i]);
    }
  }
  __syncwarp();
  for (int row = 0; row < rows; ++row) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (!seen(half, row)) {
        continue;
      }
      const Real weight = as_real<Real>(scratch[(g + 8 * half) * rows + row]);
#pragma unroll
      for (int n = 0; n < columns / 8; ++n) {
        const Real b0 = b.at(row, first + 8 * n + 2 * t);
        const Real b1 = b.at(row, first + 8 * n + 2 * t + 1);
        if (half == 0) {
          out[n][0] += weight * b0;
          out[n][1] += weight * b1;
        } else {
          out[n][2] += weight * b0;
          out[n][3] += weight * b1;
        }
      }
    }
  }
  __syncwarp();
}

}  // namespace bdlm::cuda
