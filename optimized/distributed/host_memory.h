#pragma once
// A rank's memory on the host.

#include "optimized/distributed/memory.h"

namespace bdlm::distributed {

/// Everything is done at once, by the thread that asks.
class HostMemory final : public Memory {
 public:
  bdlm_device device() const override { return {1, 0}; }
  void* stream() const override { return nullptr; }
  void* allocate(int64_t bytes) override;
  void release(void* block) override;
  void copy(void* to, const void* from, int64_t bytes) override;
  void fill(void* to, unsigned char value, int64_t bytes) override;
  void add(void* to, const void* from, int64_t count, Format dtype) override;
  void convert(void* to, Format to_type, const void* from, Format from_type,
               int64_t count) override;
  void synchronize() override {}
  const ElementType* element(Format dtype) const override;
};

}  // namespace bdlm::distributed
