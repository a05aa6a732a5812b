#pragma once
// Tiles of rows of doubles in shared memory, and products of them.

#include "optimized/cuda/tensor_access.cuh"
#include "optimized/cuda/tensor_core.cuh"

namespace bdlm::cuda {

/// rows x channels. Rows are four doubles longer, so that lanes of neighbouring rows meet different
/// banks.
template <int rows, int channels>
struct DoubleTile {
  static constexpr int stride = channels + 4;
  static constexpr int size = rows * stride;

  double* data;

  __device__ double at(int row, int channel) const { return data[row * stride + channel]; }

  /// Copies rows [first, first + rows) of one head; zeros where a row is not in [begin, end) and
  /// beyond `head_dim`. For all threads of the CTA, which then need a barrier.
  __device__ void load(const HeadRows& from, int64_t first, int64_t begin, int64_t end,
                       int64_t head, int head_dim) const {
    for (int i = static_cast<int>(threadIdx.x); i < rows * channels; i += blockDim.x) {
      const int row = i / channels;
      const int c = i % channels;
      const bool inside = begin <= first + row && first + row < end && c < head_dim;
      data[row * stride + c] = inside ? load_element<double>(from.data, from.element,
                                                             offset_of(from, first + row, head) + c)
                                      : 0;
    }
  }

  /// Whether some of this thread's share of the elements is infinite or NaN.
  __device__ bool some_not_finite() const {
    bool found = false;
    for (int i = static_cast<int>(threadIdx.x); i < rows * channels; i += blockDim.x) {
      found = found || !isfinite(at(i / channels, i % channels));
    }
    return found;
  }
};

/// out (16 x rows) = (16 rows of `a` from a_row on, all channels) times (all rows of `b`)^T.
template <int a_rows, int b_rows, int channels>
__device__ void product_of_rows(double (&out)[b_rows / 8][4], const DoubleTile<a_rows, channels>& a,
                                int a_row, const DoubleTile<b_rows, channels>& b) {
  const int g = (threadIdx.x & 31) >> 2;
  const int t = threadIdx.x & 3;
#pragma unroll
  for (int n = 0; n < b_rows / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out[n][i] = 0;
    }
  }
#pragma unroll 8
  for (int c = t; c < channels; c += 4) {
    const double a0 = a.at(a_row + g, c);
    const double a1 = a.at(a_row + g + 8, c);
#pragma unroll
    for (int n = 0; n < b_rows / 8; ++n) {
      multiply_add(out[n], a0, a1, b.at(8 * n + g, c));
    }
  }
}

/// out (16 x columns) += x (16 x rows) b (rows x [first, first + columns)). The sum over rows takes
/// rows 2t + s of every eight, s = 0 and 1: those whose weights lane t holds.
template <int columns, int rows, int channels>
__device__ void add_product(double (&out)[columns / 8][4], const double (&x)[rows / 8][4],
                            const DoubleTile<rows, channels>& b, int first) {
  const int g = (threadIdx.x & 31) >> 2;
  const int t = threadIdx.x & 3;
#pragma unroll
  for (int k = 0; k < rows / 8; ++k) {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
#pragma unroll
      for (int n = 0; n < columns / 8; ++n) {
        multiply_add(out[n], x[k][s], x[k][2 + s], b.at(8 * k + 2 * t + s, first + 8 * n + g));
      }
    }
  }
}

}  // namespace bdlm::cuda
