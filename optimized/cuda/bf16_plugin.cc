// The plug-in bdlm_cuda: bf16 inputs, products on tensor cores, sums in fp32.

#include "optimized/cuda/attention_entries.h"

namespace bdlm::cuda {
namespace {

/// Where the kernels round; the sum of the longest chain is not bounded.
constexpr char contract[] = R"({
  "name": "bdlm-cuda-bf16",
  "input": "bf16",
  "accumulate": "fp32",
  "p": "bf16",
  "ds": "bf16",
  "o": "bf16",
  "partial_o": "fp32",
  "lse": "fp32",
  "gradient": "bf16",
  "reduce": "fp32",
  "reduce_order": "fixed",
  "chain": 0,
  "deterministic": true
}
)";

const AttentionKernels& kernels() {
  constexpr uint32_t bf16 = formats({Element::bf16});
  constexpr uint32_t fp32 = formats({Element::fp32});
  static constexpr AttentionKernels value{
      {bf16, bf16 | fp32, fp32, fp32, bf16 | fp32, bf16 | fp32, fp32},
      4,
      forward_tiles,
      backward_tiles,
      launch_forward,
      launch_backward,
      launch_merge,
      [](const Problem& problem, cudaStream_t stream) {
        launch_query_gradient(problem, stream);
        launch_key_gradient(problem, stream);
      }};
  return value;
}

bdlm_backend make_backend() {
  static const std::string about =
      describe_device() +
      "; attention in bf16, fp32 sums, by wgmma for 128 channels and mma.sync for up to 512";
  bdlm_backend backend{};
  backend.version = BDLM_PLUGIN_VERSION;
  backend.size = sizeof(bdlm_backend);
  backend.name = "cuda";
  backend.about = about.c_str();
  backend.contract = contract;
  set_memory_entries(backend);
  backend.attention_workspace = [](void* context, const bdlm_attention_args* args,
                                   uint64_t* bytes) {
    return forward_workspace(kernels(), context, args, bytes);
  };
  backend.attention_backward_workspace = [](void* context, const bdlm_attention_backward_args* args,
                                            uint64_t* bytes) {
    return backward_workspace(kernels(), context, args, bytes);
  };
  backend.attention = [](void* context, const bdlm_attention_args* args) {
    return forward(kernels(), context, args);
  };
  backend.attention_backward = [](void* context, const bdlm_attention_backward_args* args) {
    return backward(kernels(), context, args);
  };
  backend.merge = [](void* context, const bdlm_merge_args* args) {
    return merge(kernels(), context, args);
  };
  return backend;
}

}  // namespace
}  // namespace bdlm::cuda

extern "C" const bdlm_backend* bdlm_plugin(void) {
  try {
    static const bdlm_backend backend = bdlm::cuda::make_backend();
    return &backend;
  } catch (...) {
    return nullptr;
  }
}
