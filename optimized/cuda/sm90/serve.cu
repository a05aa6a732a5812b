// When the kernels for compute capability 9.0 serve, and how their grids are made.

#include <cuda_bf16.h>

#include "optimized/cuda/failure.h"
#include "optimized/cuda/sm90/kernels.h"
#include "optimized/cuda/sm90/tensor_map.h"

namespace bdlm::cuda {
namespace {

constexpr int threads = 256;
constexpr int channels = 128;

bool can_map_inputs(const Problem& problem) {
  bool all = problem.head_dim == channels && problem.rows > 0 && can_map(problem.q);
  for (int s = 0; s < problem.set_count; ++s) {
    all = all && can_map(problem.sets[s].k) && can_map(problem.sets[s].v);
  }
  return all;
}

/// A thread eight channels at a time.
__global__ void __launch_bounds__(threads)
    search_kernel(HeadRows t, int64_t rows, int heads, int32_t* found) {
  constexpr int vectors = channels / 8;
  const int64_t count = rows * heads * vectors;
  bool finite = true;
  for (int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * threads) {
    const int64_t row = i / (heads * vectors);
    const int64_t head = i / vectors % heads;
    const auto* from = static_cast<const __nv_bfloat16*>(t.data) + row * t.row_stride +
                       head * t.head_stride + i % vectors * 8;
    const uint4 x = *reinterpret_cast<const uint4*>(from);
#pragma unroll
    for (const uint32_t pair : {x.x, x.y, x.z, x.w}) {
      finite = finite && (pair & 0x7f80) != 0x7f80 && (pair & 0x7f800000) != 0x7f800000;
    }
  }
  if (!finite) {
    *found = 1;
  }
}

void search(const HeadRows& tensor, int64_t rows, int heads, int32_t* found, cudaStream_t stream) {
  if (rows > 0) {
    search_kernel<<<8 * multiprocessors(), threads, 0, stream>>>(tensor, rows, heads, found);
    check(cudaGetLastError(), "search for numbers that are not finite");
  }
}

}  // namespace

bool forward_sm90_serves(const Problem& problem) {
  return can_map_inputs(problem);
}
bool backward_sm90_serves(const Problem& problem) {
  return can_map_inputs(problem) && can_map(problem.d_o);
}

void launch_search_not_finite(const Problem& problem, int32_t* found, cudaStream_t stream) {
  check(cudaMemsetAsync(found, 0, sizeof(int32_t), stream), "start of the search");
  search(problem.q, problem.rows, problem.q_heads, found, stream);
  if (problem.d_o.data != nullptr) {
    search(problem.d_o, problem.rows, problem.q_heads, found, stream);
  }
  for (int s = 0; s < problem.set_count; ++s) {
    const KeySet& set = problem.sets[s];
    search(set.k, set.keys, problem.kv_heads, found, stream);
    search(set.v, set.keys, problem.kv_heads, found, stream);
  }
}

int section_of(int kv_heads, int64_t bytes_of_a_head) {
  constexpr int64_t cache = int64_t{32} << 20;
  int section = 1;
  while (kv_heads % (2 * section) == 0 && 2 * section * bytes_of_a_head <= cache) {
    section *= 2;
  }
  return section;
}

int multiprocessors() {
  int device = 0;
  int count = 0;
  check(cudaGetDevice(&device), "current device");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
        "number of multiprocessors");
  return count;
}

}  // namespace bdlm::cuda
