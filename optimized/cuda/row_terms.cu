// What the backward needs of every row and head before it starts: delta = sum over channels of d_o
// o, and what exp takes off the row's scores.

#include "optimized/cuda/attention_kernels.h"
#include "optimized/cuda/failure.h"
#include "optimized/cuda/tensor_access.cuh"

namespace bdlm::cuda {
namespace {

constexpr int threads = 256;

/// A warp a row and head; rows beyond the last see nothing. `unit` is log2(e) where scores are in
/// base 2. A row whose LSE is -inf gets a shift of +inf, which makes all its probabilities 0.
template <class T>
__global__ void __launch_bounds__(threads)
    row_terms_kernel(const __grid_constant__ Problem p, double unit) {
  const int64_t index = (int64_t{blockIdx.x} * threads + threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int64_t row = index / p.q_heads;
  const int64_t head = index % p.q_heads;
  if (row >= p.padded_rows) {
    return;
  }
  const T infinity = static_cast<T>(INFINITY);
  T delta = 0;
  T shift = infinity;
  if (row < p.rows) {
    const T z = load_number<T>(p.lse, row, head);
    if (z != -infinity) {
      const int64_t o = offset_of(p.o, row, head);
      const int64_t d_o = offset_of(p.d_o, row, head);
      for (int c = lane; c < p.head_dim; c += 32) {
        delta += load_element<T>(p.o.data, p.o.element, o + c) *
                 load_element<T>(p.d_o.data, p.d_o.element, d_o + c);
      }
      for (int step = 16; step > 0; step /= 2) {
        delta += __shfl_xor_sync(0xffffffff, delta, step);
      }
      shift = z == infinity ? static_cast<T>(NAN) : z * static_cast<T>(unit);
    }
  }
  if (lane == 0) {
    static_cast<T*>(p.delta)[head * p.padded_rows + row] = delta;
    static_cast<T*>(p.shift)[head * p.padded_rows + row] = shift;
  }
}

template <class T>
void launch(const Problem& problem, double unit, cudaStream_t stream) {
  const int64_t warps = problem.padded_rows * problem.q_heads;
  if (warps == 0) {
    return;
  }
  const int64_t blocks = (warps * 32 + threads - 1) / threads;
  row_terms_kernel<T><<<static_cast<uint32_t>(blocks), threads, 0, stream>>>(problem, unit);
  check(cudaGetLastError(), "launch of the row terms");
}

}  // namespace

void launch_row_terms(const Problem& problem, cudaStream_t stream) {
  launch<float>(problem, 1.4426950408889634, stream);
}

void launch_double_row_terms(const Problem& problem, cudaStream_t stream) {
  launch<double>(problem, 1, stream);
}

}  // namespace bdlm::cuda
