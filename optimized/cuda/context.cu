#include "optimized/cuda/context.h"

#include <cstring>
#include <new>

#include "optimized/cuda/failure.h"

namespace bdlm::cuda {
namespace {

constexpr int device_id = 0;

/// Keeps a stream busy.
__global__ void wait_kernel(int64_t nanoseconds) {
  const auto now = [] {
    uint64_t t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
  };
  const uint64_t start = now();
  while (static_cast<int64_t>(now() - start) < nanoseconds) {
    __nanosleep(1000);
  }
}

bdlm_status create(void** context) {
  try {
    check(cudaSetDevice(device_id), "cudaSetDevice");
    *context = new Context;
    return BDLM_OK;
  } catch (const std::bad_alloc&) {
    return BDLM_OUT_OF_MEMORY;
  } catch (...) {
    return BDLM_FAILED;
  }
}

void destroy(void* context) {
  delete static_cast<Context*>(context);
}

const char* last_error(void* context) {
  return context == nullptr ? "there is no context"
                            : static_cast<Context*>(context)->last_error.c_str();
}

bdlm_status allocate(void* context, uint64_t bytes, void** memory) {
  return guarded(context, [&](Context&) {
    *memory = nullptr;
    check(cudaMalloc(memory, std::max<uint64_t>(bytes, 1)), "cudaMalloc");
  });
}

void release(void* context, void* memory) {
  guarded(context, [&](Context&) { check(cudaFree(memory), "cudaFree"); });
}

// Streams do not wait for the default stream, and so copies wait for all of them.

bdlm_status copy_in(void* context, void* device_memory, const void* host, uint64_t bytes) {
  return guarded(context, [&](Context&) {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(cudaMemcpy(device_memory, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  });
}

bdlm_status copy_out(void* context, void* host, const void* device_memory, uint64_t bytes) {
  return guarded(context, [&](Context&) {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(cudaMemcpy(host, device_memory, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  });
}

bdlm_status create_stream(void* context, void** stream) {
  return guarded(context, [&](Context&) {
    cudaStream_t created = nullptr;
    check(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking), "cudaStreamCreate");
    *stream = created;
  });
}

void destroy_stream(void* context, void* stream) {
  guarded(context, [&](Context&) {
    check(cudaStreamDestroy(static_cast<cudaStream_t>(stream)), "cudaStreamDestroy");
  });
}

bdlm_status synchronize(void* context, void* stream) {
  return guarded(context, [&](Context&) {
    check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "cudaStreamSynchronize");
  });
}

bdlm_status delay(void* context, void* stream, int64_t microseconds) {
  return guarded(context, [&](Context&) {
    require(microseconds >= 0 && microseconds <= 10'000'000, "a delay of ", microseconds,
            " microseconds; allowed are 0 to 10000000");
    wait_kernel<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(microseconds * 1000);
    check(cudaGetLastError(), "launch of the delay");
  });
}

}  // namespace

Staging::~Staging() {
  for (Block& block : blocks_) {
    cudaEventSynchronize(block.copied);
    cudaEventDestroy(block.copied);
    cudaFreeHost(block.memory);
  }
}

void Staging::copy(void* device, const void* host, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) {
    return;
  }
  Block* free = nullptr;
  for (Block& block : blocks_) {
    const cudaError_t state = cudaEventQuery(block.copied);
    if (state == cudaSuccess && block.bytes >= bytes) {
      free = &block;
      break;
    }
    if (state != cudaErrorNotReady) {
      check(state, "cudaEventQuery");
    }
  }
  cudaGetLastError();  // "not ready" is no error
  if (free == nullptr) {
    Block block;
    block.bytes = bytes + bytes / 4;
    check(cudaHostAlloc(&block.memory, block.bytes, cudaHostAllocDefault), "cudaHostAlloc");
    const cudaError_t made = cudaEventCreateWithFlags(&block.copied, cudaEventDisableTiming);
    if (made != cudaSuccess) {
      cudaFreeHost(block.memory);
    }
    check(made, "cudaEventCreate");
    blocks_.push_back(block);
    free = &blocks_.back();
  }
  std::memcpy(free->memory, host, bytes);
  check(cudaMemcpyAsync(device, free->memory, bytes, cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
  check(cudaEventRecord(free->copied, stream), "cudaEventRecord");
}

bdlm_status guarded(void* context, const std::function<void(Context&)>& work) {
  if (context == nullptr) {
    return BDLM_INVALID;
  }
  auto& own = *static_cast<Context*>(context);
  const auto failed = [&](bdlm_status status, const char* what) {
    try {
      own.last_error = what;
    } catch (...) {
      own.last_error.clear();
    }
    return status;
  };
  try {
    check(cudaSetDevice(device_id), "cudaSetDevice");
    work(own);
    return BDLM_OK;
  } catch (const UnsupportedError& error) {
    return failed(BDLM_UNSUPPORTED, error.what());
  } catch (const InputError& error) {
    return failed(BDLM_INVALID, error.what());
  } catch (const MemoryError& error) {
    return failed(BDLM_OUT_OF_MEMORY, error.what());
  } catch (const std::bad_alloc& error) {
    return failed(BDLM_OUT_OF_MEMORY, error.what());
  } catch (const std::exception& error) {
    return failed(BDLM_FAILED, error.what());
  } catch (...) {
    return failed(BDLM_FAILED, "an unknown exception");
  }
}

void set_memory_entries(bdlm_backend& backend) {
  backend.device = {2, device_id};
  backend.create = create;
  backend.destroy = destroy;
  backend.last_error = last_error;
  backend.allocate = allocate;
  backend.release = release;
  backend.copy_in = copy_in;
  backend.copy_out = copy_out;
  backend.create_stream = create_stream;
  backend.destroy_stream = destroy_stream;
  backend.synchronize = synchronize;
  backend.delay = delay;
}

std::string describe_device() {
  cudaDeviceProp properties;
  int driver = 0;
  if (cudaGetDeviceProperties(&properties, device_id) != cudaSuccess ||
      cudaDriverGetVersion(&driver) != cudaSuccess) {
    cudaGetLastError();
    return "no CUDA device";
  }
  const auto version = [](int v) { return join(v / 1000, '.', v % 1000 / 10); };
  return join(properties.name, ", CUDA ", version(CUDART_VERSION), ", driver ", version(driver));
}

}  // namespace bdlm::cuda
