#pragma once
// A rank's memory on a GPU.

#include <cuda_runtime_api.h>

#include "optimized/distributed/memory.h"

namespace bdlm::cuda {

/// Memory of the device that is current where it is made, allocated and worked on in the order of a
/// stream of its own. Several ranks may each have one on the same device: their elements move by
/// copies on the device, and sums over them are taken there. Throws MemoryError and DeviceError.
class DeviceMemory final : public distributed::Memory {
 public:
  DeviceMemory();
  ~DeviceMemory() override;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  bdlm_device device() const override { return {2, device_}; }
  void* stream() const override { return stream_; }
  void* allocate(int64_t bytes) override;
  void release(void* block) override;
  void copy(void* to, const void* from, int64_t bytes) override;
  void fill(void* to, unsigned char value, int64_t bytes) override;
  void add(void* to, const void* from, int64_t count, distributed::Format dtype) override;
  void convert(void* to, distributed::Format to_type, const void* from,
               distributed::Format from_type, int64_t count) override;
  void synchronize() override;
  const ElementType* element(distributed::Format dtype) const override;

 private:
  int32_t device_ = 0;
  cudaStream_t stream_ = nullptr;
};

}  // namespace bdlm::cuda
