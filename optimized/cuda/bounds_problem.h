#pragma once
// What the kernels of bounds know of a call.

#include "optimized/cuda/bdlm_bounds.h"
#include "optimized/cuda/mask_tables.h"

namespace bdlm::cuda {

/// Bound and deviation of a tensor.
struct BoundPair {
  HeadRows bound, deviation;
};

struct BoundsProblem {
  Problem call;
  bdlm_error_model model;
  BoundPair o, dq;                      ///< (R, Hq, D)
  RowNumbers lse_bound, lse_deviation;  ///< (R, Hq)
  BoundPair dk[2], dv[2];               ///< (N, Hkv, D)
  const int32_t* rows_of_key[2] = {};   ///< (N): how many rows see a key
  /// (Hq, padded rows), filled on the way: errors and variances of z and delta.
  double *z_error = nullptr, *z_variance = nullptr;
  double *delta_error = nullptr, *delta_variance = nullptr;
};

TileSizes bound_tiles(int head_dim);
/// Everything, in order.
void launch_bounds(const BoundsProblem& problem, cudaStream_t stream);
void launch_row_bounds(const BoundsProblem& problem, cudaStream_t stream);
void launch_key_bounds(const BoundsProblem& problem, cudaStream_t stream);

}  // namespace bdlm::cuda
