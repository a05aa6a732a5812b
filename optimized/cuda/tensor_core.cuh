#pragma once
// The few instructions that the compiler has no words for: asynchronous copies into shared memory,
// loads of matrix fragments, products on tensor cores.
//
// Fragments of a warp, with g = lane / 4 and t = lane % 4. A 16 x 8 accumulator is four floats:
// rows g and g + 8 by columns 2t and 2t + 1, as (g, 2t) (g, 2t+1) (g+8, 2t) (g+8, 2t+1).

#include <cuda_bf16.h>

#include <cstdint>

namespace bdlm::cuda {

using bf16 = __nv_bfloat16;

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// 16 bytes to shared memory; zeros where not `valid`, and then nothing is read.
__device__ inline void copy_async_16(void* shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(global), "r"(valid ? 16 : 0)
               : "memory");
}
__device__ inline void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

/// Four 8 x 8 matrices of bf16; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void load_matrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
/// The same, each matrix transposed.
__device__ inline void load_transposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/// c (16 x 8) += a (16 x 16) b (16 x 8), products of bf16, sums in fp32.
__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// c (16 x 8) += a (16 x 4) b (4 x 8) in double. a: (g, t) and (g + 8, t); b: (t, g).
__device__ inline void multiply_add(double (&c)[4], double a0, double a1, double b) {
  asm volatile(
      "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
      : "d"(a0), "d"(a1), "d"(b));
}

/// Two floats rounded to bf16, `low` in the low half.
__device__ inline uint32_t pack(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}

/// 2^x, within 2 units in the last place; 0 for -inf, and where the result is subnormal.
__device__ inline float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// The same, with subnormal results: a probability of 2^-130 times a large dP is no small number.
__device__ inline float exp2_gradual(float x) {
  float y;
  asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Reductions over the four lanes that share a row.
template <class T>
__device__ T quad_sum(T x) {
  x += __shfl_xor_sync(0xffffffff, x, 1);
  return x + __shfl_xor_sync(0xffffffff, x, 2);
}
template <class T>
__device__ T quad_max(T x) {
  T y = __shfl_xor_sync(0xffffffff, x, 1);
  x = x < y ? y : x;
  y = __shfl_xor_sync(0xffffffff, x, 2);
  return x < y ? y : x;
}

}  // namespace bdlm::cuda
