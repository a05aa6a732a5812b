#pragma once
// Tiles of bf16 rows in shared memory, and products of them.

#include "optimized/cuda/tensor_access.cuh"
#include "optimized/cuda/tensor_core.cuh"

namespace bdlm::cuda {

/// rows x channels of bf16. A row is whole 16-byte chunks; chunk c of row r stands at chunk c ^ (r
/// % 8), so that eight rows of one chunk lie in different banks.
template <int rows, int channels>
struct SharedTile {
  static_assert(channels % 64 == 0);
  static constexpr int chunks = channels / 8;
  static constexpr int bytes = rows * channels * 2;

  bf16* data;

  __device__ bf16* chunk(int row, int c) const {
    return data + row * channels + ((c ^ (row & 7)) << 3);
  }
  __device__ float at(int row, int channel) const {
    return __bfloat162float(chunk(row, channel >> 3)[channel & 7]);
  }

  /// Starts copying rows [first, first + rows) of one head; zeros where a row is not in [begin,
  /// end) and beyond `head_dim`. For all threads of the CTA.
  __device__ void load(const HeadRows& from, int64_t first, int64_t begin, int64_t end,
                       int64_t head, int head_dim, bool vector_loads) const {
    const bf16* base = static_cast<const bf16*>(from.data);
    for (int i = static_cast<int>(threadIdx.x); i < rows * chunks; i += blockDim.x) {
      const int row = i / chunks;
      const int c = i % chunks;
      const bool inside = begin <= first + row && first + row < end;
      const int64_t at = offset_of(from, inside ? first + row : 0, head) + c * 8;
      if (vector_loads) {
        const bool valid = inside && c * 8 < head_dim;
        copy_async_16(chunk(row, c), valid ? base + at : base, valid);
      } else {
        alignas(16) bf16 values[8];
        for (int e = 0; e < 8; ++e) {
          values[e] = inside && c * 8 + e < head_dim ? base[at + e] : __float2bfloat16_rn(0);
        }
        *reinterpret_cast<uint4*>(chunk(row, c)) = *reinterpret_cast<const uint4*>(values);
      }
    }
  }

  /// Whether some of this thread's share of the elements is infinite or NaN.
  __device__ bool some_not_finite() const {
    bool found = false;
    const auto* words = reinterpret_cast<const uint32_t*>(data);
    for (int i = static_cast<int>(threadIdx.x); i < rows * channels / 2; i += blockDim.x) {
      const uint32_t word = words[i];
      found = found || (word & 0x7f80) == 0x7f80 || (word & 0x7f800000) == 0x7f800000;
    }
    return found;
  }

  /// Rows [row, row + 16) by channels [16 k, 16 k + 16), as the left operand.
  __device__ void left(uint32_t (&a)[4], int row, int k) const {
    const int lane = threadIdx.x & 31;
    load_matrices(a, shared_address(chunk(row + (lane & 15), 2 * k + (lane >> 4))));
  }
  /// Rows [row, row + 16) as columns and channels [16 k, 16 k + 16) as rows of the right operand:
  /// b[0], b[1] for the first eight rows, b[2], b[3] for the others.
  __device__ void right_by_rows(uint32_t (&b)[4], int row, int k) const {
    const int lane = threadIdx.x & 31;
    load_matrices(
        b, shared_address(chunk(row + (lane & 7) + ((lane & 16) >> 1), 2 * k + ((lane >> 3) & 1))));
  }
  /// Rows [row, row + 16) as rows and channels [16 n, 16 n + 16) as columns of the right operand:
  /// b[0], b[1] for the first eight channels, b[2], b[3] for the others.
  __device__ void right_by_channels(uint32_t (&b)[4], int row, int n) const {
    const int lane = threadIdx.x & 31;
    load_transposed(b, shared_address(chunk(row + (lane & 15), 2 * n + (lane >> 4))));
  }
};

/// out (16 x rows) = left (16 rows of `a` from a_row on, all channels) right^T (all rows of `b`).
template <int a_rows, int b_rows, int channels>
__device__ void product_of_rows(float (&out)[b_rows / 8][4], const SharedTile<a_rows, channels>& a,
                                int a_row, const SharedTile<b_rows, channels>& b) {
#pragma unroll
  for (int n = 0; n < b_rows / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out[n][i] = 0;
    }
  }
#pragma unroll
  for (int k = 0; k < channels / 16; ++k) {
    uint32_t left[4];
    a.left(left, a_row, k);
#pragma unroll
    for (int n = 0; n < b_rows / 16; ++n) {
      uint32_t right[4];
      b.right_by_rows(right, 16 * n, k);
      multiply_add(out[2 * n], left, right[0], right[1]);
      multiply_add(out[2 * n + 1], left, right[2], right[3]);
    }
  }
}

/// out (16 x columns) += x (16 x rows, rounded to bf16) b (rows x [first, first + columns)).
template <int columns, int rows, int channels>
__device__ void add_product(float (&out)[columns / 8][4], const float (&x)[rows / 8][4],
                            const SharedTile<rows, channels>& b, int first) {
#pragma unroll
  for (int k = 0; k < rows / 16; ++k) {
    const uint32_t left[4] = {pack(x[2 * k][0], x[2 * k][1]), pack(x[2 * k][2], x[2 * k][3]),
                              pack(x[2 * k + 1][0], x[2 * k + 1][1]),
                              pack(x[2 * k + 1][2], x[2 * k + 1][3])};
#pragma unroll
    for (int n = 0; n < columns / 16; ++n) {
      uint32_t right[4];
      b.right_by_channels(right, 16 * k, first / 16 + n);
      multiply_add(out[2 * n], left, right[0], right[1]);
      multiply_add(out[2 * n + 1], left, right[2], right[3]);
    }
  }
}

}  // namespace bdlm::cuda
