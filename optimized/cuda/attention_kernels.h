#pragma once
// The kernels of attention, by name. Problems are complete: tables stand in the workspace.

#include <cuda_runtime_api.h>

#include "optimized/cuda/arguments.h"
#include "optimized/cuda/mask_tables.h"

namespace bdlm::cuda {

/// bf16 in, fp32 sums.
TileSizes forward_tiles(int head_dim);
TileSizes backward_tiles(int head_dim);
void launch_forward(const Problem& problem, cudaStream_t stream);
/// delta and shift first, then dQ, then dK and dV.
void launch_backward(const Problem& problem, cudaStream_t stream);
void launch_query_gradient(const Problem& problem, cudaStream_t stream);
void launch_key_gradient(const Problem& problem, cudaStream_t stream);

/// Double, whatever the inputs are.
TileSizes double_forward_tiles(int head_dim);
TileSizes double_backward_tiles(int head_dim);
void launch_double_forward(const Problem& problem, cudaStream_t stream);
void launch_double_backward(const Problem& problem, cudaStream_t stream);
void launch_double_query_gradient(const Problem& problem, cudaStream_t stream);
void launch_double_key_gradient(const Problem& problem, cudaStream_t stream);

/// Fills problem.delta and problem.shift: float, or double.
void launch_row_terms(const Problem& problem, cudaStream_t stream);
void launch_double_row_terms(const Problem& problem, cudaStream_t stream);

void launch_merge(const MergeProblem& problem, cudaStream_t stream);
void launch_double_merge(const MergeProblem& problem, cudaStream_t stream);

}  // namespace bdlm::cuda
