// The plug-in bdlm_cuda_f64, an oracle: everything in double, from inputs in any format.

#include "optimized/cuda/attention_entries.h"

namespace bdlm::cuda {
namespace {

constexpr char contract[] = R"({
  "name": "bdlm-cuda-f64",
  "input": "f64",
  "accumulate": "f64",
  "p": "f64",
  "ds": "f64",
  "o": "f64",
  "partial_o": "f64",
  "lse": "f64",
  "gradient": "f64",
  "reduce": "f64",
  "reduce_order": "fixed",
  "chain": 0,
  "deterministic": true
}
)";

const AttentionKernels& kernels() {
  constexpr uint32_t f64 = formats({Element::f64});
  constexpr uint32_t any = formats({Element::bf16, Element::fp32, Element::f64});
  static constexpr AttentionKernels value{{any, f64, f64, f64, any, f64, f64},
                                          8,
                                          double_forward_tiles,
                                          double_backward_tiles,
                                          launch_double_forward,
                                          launch_double_backward,
                                          launch_double_merge};
  return value;
}

bdlm_backend make_backend() {
  static const std::string about =
      describe_device() + "; attention in double by mma.sync, head dimensions to 512";
  bdlm_backend backend{};
  backend.version = BDLM_PLUGIN_VERSION;
  backend.size = sizeof(bdlm_backend);
  backend.name = "cuda-f64";
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
