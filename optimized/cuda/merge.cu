// The merge of two states, row by row.

#include <algorithm>

#include "optimized/cuda/attention_kernels.h"
#include "optimized/cuda/failure.h"
#include "optimized/cuda/merge_rows.cuh"
#include "optimized/cuda/tensor_access.cuh"

namespace bdlm::cuda {
namespace {

constexpr int threads = 256;

/// A warp a row and head. The lanes have read both log-sum-exps before one of them writes: the
/// result may stand where an operand stood.
template <class T>
__global__ void __launch_bounds__(threads) merge_kernel(const __grid_constant__ MergeProblem p) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int64_t warps = int64_t{gridDim.x} * threads / 32;
  const int64_t first = (int64_t{blockIdx.x} * threads + threadIdx.x) / 32;
  for (int64_t index = first; index < p.rows * p.heads; index += warps) {
    const int64_t row = index / p.heads;
    const int64_t head = index % p.heads;
    const MergedRow<T> merged(load_number<T>(p.lse_a, row, head),
                              load_number<T>(p.lse_b, row, head));
    __syncwarp();
    const int64_t a = offset_of(p.o_a, row, head);
    const int64_t b = offset_of(p.o_b, row, head);
    const int64_t to = offset_of(p.o, row, head);
    for (int c = lane; c < p.head_dim; c += 32) {
      const T o_a = load_element<T>(p.o_a.data, p.o_a.element, a + c);
      const T o_b = load_element<T>(p.o_b.data, p.o_b.element, b + c);
      store_element<T>(p.o.data, p.o.element, to + c, merged.o(o_a, o_b));
    }
    if (lane == 0) {
      store_number<T>(p.lse, row, head, merged.z());
    }
  }
}

template <class T>
void launch(const MergeProblem& problem, cudaStream_t stream) {
  const int64_t warps = problem.rows * problem.heads;
  if (warps == 0) {
    return;
  }
  const int64_t blocks = std::min<int64_t>((warps * 32 + threads - 1) / threads, 1 << 20);
  merge_kernel<T><<<static_cast<uint32_t>(blocks), threads, 0, stream>>>(problem);
  check(cudaGetLastError(), "launch of the merge");
}

}  // namespace

void launch_merge(const MergeProblem& problem, cudaStream_t stream) {
  launch<float>(problem, stream);
}

void launch_double_merge(const MergeProblem& problem, cudaStream_t stream) {
  launch<double>(problem, stream);
}

}  // namespace bdlm::cuda
