#pragma once
// What the plug-in keeps between calls, and its entries for memory and streams.

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "conformance/plugin/bdlm_plugin.h"
#include "optimized/cuda/mask_cache.h"

namespace bdlm::cuda {

/// Host memory that the device reads while the caller goes on. A block is free again once the
/// copies from it are done.
class Staging {
 public:
  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  /// Copies `bytes` of host memory, which may go at once, to the device in order with `stream`.
  void copy(void* device, const void* host, size_t bytes, cudaStream_t stream);

 private:
  struct Block {
    void* memory = nullptr;
    size_t bytes = 0;
    cudaEvent_t copied = nullptr;
  };
  std::vector<Block> blocks_;
};

struct Context {
  std::string last_error;
  Staging staging;
  MaskCache masks;
};

/// Runs `work` and turns what it throws into a status and the context's last error.
bdlm_status guarded(void* context, const std::function<void(Context&)>& work);

/// Fills in the entries for contexts, memory and streams, and where tensors live.
void set_memory_entries(bdlm_backend& backend);

/// "NVIDIA H200, CUDA 13.0, driver 13.0"; says so where there is no device.
std::string describe_device();

}  // namespace bdlm::cuda
