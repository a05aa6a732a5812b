#pragma once
// Products of a warpgroup, four warps, on tensor cores: bf16 in, fp32 sums.
//
// An operand in shared memory is made of panels of 64 elements of 2 bytes, 128 bytes a row, as the
// copy engine writes them with its swizzle of 128 bytes. It is read along its rows (the sum runs
// over the 64 elements) or across them (over the rows).
//
// Accumulators: with g = lane / 4 and t = lane % 4, element 4 j + 2 h + e of a thread of warp w is
// (16 w + g + 8 h, 8 j + 2 t + e).

#include <cstdint>

#include "optimized/cuda/tensor_core.cuh"

namespace bdlm::cuda {

/// Bytes of a row of a panel.
constexpr int panel_row_bytes = 128;
/// Channels of a row of a panel.
constexpr int panel_channels = 64;

/// An operand that begins at `address`. `panel_bytes`: from a panel to the next, where the operand
/// is read across rows and is more than one panel wide.
__device__ inline uint64_t operand(uint32_t address, uint32_t panel_bytes = 16) {
  constexpr uint64_t eight_rows = 8 * panel_row_bytes >> 4;
  constexpr uint64_t swizzle_128 = uint64_t{1} << 62;
  return uint64_t{(address & 0x3ffff) >> 4} | uint64_t{panel_bytes >> 4} << 16 | eight_rows << 32 |
         swizzle_128;
}

/// What a product reads next must be in registers and shared memory before this.
__device__ inline void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most `count` groups of products are under way.
template <int count>
__device__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(count) : "memory");
}

#define BDLM_ACCUMULATE_8(c, i)                                                               \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
      "+f"(c[i + 6]), "+f"(c[i + 7])
#define BDLM_ACCUMULATE_32(c)                                                 \
  BDLM_ACCUMULATE_8(c, 0), BDLM_ACCUMULATE_8(c, 8), BDLM_ACCUMULATE_8(c, 16), \
      BDLM_ACCUMULATE_8(c, 24)
#define BDLM_ACCUMULATE_64(c)                                                \
  BDLM_ACCUMULATE_32(c), BDLM_ACCUMULATE_8(c, 32), BDLM_ACCUMULATE_8(c, 40), \
      BDLM_ACCUMULATE_8(c, 48), BDLM_ACCUMULATE_8(c, 56)
#define BDLM_NAMES_32                                                                              \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25," \
  "%26,%27,%28,%29,%30,%31"
#define BDLM_NAMES_64                                                                             \
  BDLM_NAMES_32                                                                                   \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54," \
  "%55,%56,%57,%58,%59,%60,%61,%62,%63"

/// c (64 x 128) = a (64 x 16) b (16 x 128), added to c unless `first`; both in shared memory, the
/// sum along their rows.
__device__ inline void multiply(float (&c)[64], uint64_t a, uint64_t b, bool first) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.eq.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" BDLM_NAMES_64
      "}, %64, %65, add, 1, 1, 0, 0;\n"
      "}"
      : BDLM_ACCUMULATE_64(c)
      : "l"(a), "l"(b), "r"(static_cast<int>(first)));
}

/// c (64 x 128) += a (64 x 16) b (16 x 128): a in registers, b across its rows.
__device__ inline void multiply_add(float (&c)[64], const uint32_t* a, uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" BDLM_NAMES_64
               "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;\n"
               : BDLM_ACCUMULATE_64(c)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/// c (64 x 64) = a (64 x 16) b (16 x 64), added to c unless `first`; both in shared memory, across
/// their rows where `across`, else along them.
template <bool across>
__device__ void multiply(float (&c)[32], uint64_t a, uint64_t b, bool first) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.eq.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" BDLM_NAMES_32
      "}, %32, %33, add, 1, 1, %35, %35;\n"
      "}"
      : BDLM_ACCUMULATE_32(c)
      : "l"(a), "l"(b), "r"(static_cast<int>(first)), "n"(across ? 1 : 0));
}

#undef BDLM_ACCUMULATE_8
#undef BDLM_ACCUMULATE_32
#undef BDLM_ACCUMULATE_64
#undef BDLM_NAMES_32
#undef BDLM_NAMES_64

/// Four 8 x 8 matrices of bf16 to shared memory; lane l gives the address of row l % 8 of matrix
/// l / 8.
__device__ inline void store_matrices(uint32_t address, const uint32_t* r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

/// Two floats, rounded to nearest; `low` in the low half.
__device__ inline uint32_t rounded_pair(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

}  // namespace bdlm::cuda
