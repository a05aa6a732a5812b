#pragma once
// The attention entries of a backend, around its kernels.

#include "optimized/cuda/attention_kernels.h"
#include "optimized/cuda/context.h"

namespace bdlm::cuda {

/// What differs between the backends.
struct AttentionKernels {
  AcceptedFormats accepted;
  int64_t real_bytes;  ///< of delta and shift: 4 or 8
  TileSizes (*forward_tiles)(int head_dim);
  TileSizes (*backward_tiles)(int head_dim);
  void (*forward)(const Problem&, cudaStream_t);
  void (*backward)(const Problem&, cudaStream_t);
  void (*merge)(const MergeProblem&, cudaStream_t);
  /// Given where the kernels of sm90/ are to be taken when they serve: what `backward` does once
  /// delta and shift are there.
  void (*gradients)(const Problem&, cudaStream_t) = nullptr;
};

bdlm_status forward_workspace(const AttentionKernels& kernels, void* context,
                              const bdlm_attention_args* args, uint64_t* bytes);
bdlm_status backward_workspace(const AttentionKernels& kernels, void* context,
                               const bdlm_attention_backward_args* args, uint64_t* bytes);
bdlm_status forward(const AttentionKernels& kernels, void* context,
                    const bdlm_attention_args* args);
bdlm_status backward(const AttentionKernels& kernels, void* context,
                     const bdlm_attention_backward_args* args);
bdlm_status merge(const AttentionKernels& kernels, void* context, const bdlm_merge_args* args);

}  // namespace bdlm::cuda
