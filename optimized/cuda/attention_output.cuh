#pragma once
// The end of the forward: what a lane holds of two rows is normalised, merged into the state and
// written.

#include "optimized/cuda/merge_rows.cuh"
#include "optimized/cuda/tensor_access.cuh"

namespace bdlm::cuda {

/// The log-sum-exps of the state of rows `first` and `first` + 8; -inf without one. Read before any
/// thread of the CTA writes: the state may be the output itself.
template <class T>
__device__ void load_states(const Problem& p, int64_t first, int head, T (&z)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = first + 8 * half;
    z[half] = p.lse_state.data != nullptr && row < p.rows ? load_number<T>(p.lse_state, row, head)
                                                          : static_cast<T>(-INFINITY);
  }
}

/// out (16 x columns), not normalised, of channels from `channel` on; sum and z of rows `first` and
/// `first` + 8: sum 0 where nothing was added. Writes o, and lse where `write_lse`.
template <class T, int columns>
__device__ void write_output(const Problem& p, int64_t first, int head, int channel,
                             const T (&out)[columns / 8][4], const T (&sum)[2], const T (&z)[2],
                             const T (&z_state)[2], bool write_lse) {
  const int t = threadIdx.x & 3;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t row = first + 8 * half;
    if (row >= p.rows) {
      continue;
    }
    const bool empty = sum[half] == T(0);
    const MergedRow<T> merged(z_state[half], empty ? static_cast<T>(-INFINITY) : z[half]);
    const T inverse = empty ? T(0) : T(1) / sum[half];
    if (write_lse && t == 0) {
      store_number<T>(p.lse, row, head, merged.z());
    }
    const int64_t to = offset_of(p.o, row, head);
    const int64_t from = offset_of(p.o_state, row, head);
#pragma unroll
    for (int n = 0; n < columns / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int c = channel + 8 * n + 2 * t + e;
        if (c < p.head_dim) {
          const T before = p.o_state.data == nullptr
                               ? T(0)
                               : load_element<T>(p.o_state.data, p.o_state.element, from + c);
          const T part = out[n][2 * half + e] * inverse;
          store_element<T>(p.o.data, p.o.element, to + c, merged.o(before, part));
        }
      }
    }
  }
}

}  // namespace bdlm::cuda
