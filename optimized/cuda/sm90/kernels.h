#pragma once
// The kernels for compute capability 9.0 with 128 channels, and when they serve.

#include <cuda_runtime_api.h>

#include "optimized/cuda/mask_tables.h"

namespace bdlm::cuda {

/// Whether the copy engine can read the call's tensors and heads have 128 channels. The tables must
/// be those of tiles of 128 rows.
bool forward_sm90_serves(const Problem& problem);
bool backward_sm90_serves(const Problem& problem);

/// Sets *found to whether any element of q, k, v or, in a backward, d_o is not finite. The kernels
/// below multiply what a row does not see by a probability of 0, which infinities and NaN survive,
/// and so they return at once where *not_finite is set; the plain kernels, which keep such values
/// from rows that do not see them, run then.
void launch_search_not_finite(const Problem& problem, int32_t* found, cudaStream_t stream);

/// `next` is a counter of theirs.
void launch_forward_sm90(const Problem& problem, int32_t* next, const int32_t* not_finite,
                         cudaStream_t stream);

/// Tables that the backward reads.
constexpr TileSizes sm90_backward_tiles{128, 128, 64};

/// What the backward needs beside them: sums of dQ, as many as q has elements, up to a whole tile
/// of rows, and counters.
struct BackwardSm90Memory {
  float* sums;
  int32_t* counters;
};
BackwardSm90Memory place_backward_sm90(const Problem& problem, Arena& arena);

/// Sums in the order of the keys: the same bits in every run. delta and shift must be there.
void launch_backward_sm90(const Problem& problem, const BackwardSm90Memory& memory,
                          const int32_t* not_finite, cudaStream_t stream);

/// Heads of K and V, a power of two and a divisor of kv_heads, that together are at most 32 MiB,
/// and at least one: they are worked on at a time, so that they stay in the second-level cache.
int section_of(int kv_heads, int64_t bytes_of_a_head);

/// Of the current device.
int multiprocessors();

}  // namespace bdlm::cuda
