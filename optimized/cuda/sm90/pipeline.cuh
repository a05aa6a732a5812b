#pragma once
// Barriers in shared memory, and the copy engine that completes on them.
//
// A barrier has phases, numbered from 0. `wait(k & 1)` returns once phase k is complete; a wait for
// the phase before the first one returns at once, so that producers may begin with an empty stage.

#include <cuda.h>

#include "optimized/cuda/tensor_core.cuh"

namespace bdlm::cuda {

class Barrier {
 public:
  /// A phase is complete after `count` arrivals, and after the bytes that were announced.
  __device__ void init(int count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(count));
  }
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
  }
  /// Arrives, and announces bytes that copies will bring.
  __device__ void arrive_for(uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()),
                 "r"(bytes)
                 : "memory");
  }
  __device__ void wait(int parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(address()),
        "r"(parity)
        : "memory");
  }
  __device__ uint32_t address() const { return shared_address(&state_); }

 private:
  uint64_t state_;
};

/// Which stage of a ring is used for the n-th time, and the phase of its barriers.
template <int stages>
struct Turn {
  int stage, parity;
  __device__ explicit Turn(int n) : stage(n % stages), parity(n / stages & 1) {}
};

/// A box of (rows, 1 head, 64 channels) at (row, head, channel).
__device__ inline void copy_box(void* shared, const CUtensorMap* map, Barrier& barrier, int channel,
                                int head, int row) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(shared)),
      "l"(map), "r"(barrier.address()), "r"(channel), "r"(head), "r"(row)
      : "memory");
}

/// Bytes from global to shared memory; addresses and size are multiples of 16.
__device__ inline void copy_bytes(void* shared, const void* global, uint32_t bytes,
                                  Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(barrier.address())
      : "memory");
}

/// Orders a thread's writes to shared memory before what the tensor cores and the copy engine read.
__device__ inline void publish_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// The barriers that were initialised by this thread may be used, after a __syncthreads, by all.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Named barriers of the CTA, for `threads` of its threads.
template <int id, int threads>
__device__ void sync_some() {
  asm volatile("bar.sync %0, %1;" ::"n"(id), "n"(threads) : "memory");
}
template <int id, int threads>
__device__ void arrive_some() {
  asm volatile("bar.arrive %0, %1;" ::"n"(id), "n"(threads) : "memory");
}

template <int count>
__device__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
__device__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

}  // namespace bdlm::cuda
