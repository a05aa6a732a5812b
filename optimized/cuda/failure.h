#pragma once
// Failures inside the plug-in: thrown by its own code, turned into a status at the C boundary.

#include <cuda_runtime_api.h>

#include "reference/base/error.h"

namespace bdlm::cuda {

/// The case is not implemented: BDLM_UNSUPPORTED.
class UnsupportedError : public Error {
 public:
  using Error::Error;
};

/// The device has no memory left: BDLM_OUT_OF_MEMORY.
class MemoryError : public Error {
 public:
  using Error::Error;
};

/// A call of the CUDA runtime failed: BDLM_FAILED.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// Throws MemoryError or DeviceError, naming the operation, unless `status` is a success.
inline void check(cudaError_t status, const char* operation) {
  if (status == cudaSuccess) {
    return;
  }
  // A failed launch would otherwise be reported again by the next call.
  cudaGetLastError();
  const std::string message = join(operation, ": ", cudaGetErrorString(status));
  if (status == cudaErrorMemoryAllocation) {
    throw MemoryError(message);
  }
  throw DeviceError(message);
}

}  // namespace bdlm::cuda
