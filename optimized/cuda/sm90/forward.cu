// Attention forward for 128 channels, for the tensor cores and the copy engine of compute
// capability 9.0. Its readable twin is attention_forward.cu.
//
// A CTA is three warpgroups. The first has one thread that copies: Q of a tile of 128 rows and one
// head, then K and V of the tiles of 128 keys that any of its rows sees. The other two compute, 64
// rows each, in turns: while one makes scores and adds P v on the tensor cores, the other takes
// exponentials. A warpgroup asks for the next scores before it adds the product of the last
// probabilities, so that its tensor cores have work while it waits for its own exponentials.
//
// CTAs stay; each takes the next tile of rows from a counter, the longest first. Heads are taken in
// sections whose keys fit the second-level cache together.

#include <algorithm>

#include "optimized/cuda/attention_output.cuh"
#include "optimized/cuda/failure.h"
#include "optimized/cuda/key_walk.cuh"
#include "optimized/cuda/sm90/kernels.h"
#include "optimized/cuda/sm90/pipeline.cuh"
#include "optimized/cuda/sm90/tensor_map.h"
#include "optimized/cuda/sm90/wgmma.cuh"

namespace bdlm::cuda {
namespace {

constexpr int channels = 128;
constexpr int panels = channels / panel_channels;
constexpr int tile_rows = 128;
constexpr int tile_keys = 128;
constexpr int own_rows = 64;  // of a warpgroup
constexpr int stages = 2;
constexpr int threads = 3 * 128;
constexpr int computing = 2 * 128;
constexpr int tile_bytes = tile_keys * channels * 2;
constexpr int panel_bytes = tile_keys * panel_row_bytes;

struct Maps {
  CUtensorMap q, k[2], v[2];
};

struct Shared {
  alignas(1024) bf16 q[panels][tile_rows * panel_channels];
  alignas(1024) bf16 k[stages][panels][tile_keys * panel_channels];
  alignas(1024) bf16 v[stages][panels][tile_keys * panel_channels];
  Barrier q_full, q_empty, k_full[stages], k_empty[stages], v_full[stages], v_empty[stages];
  Barrier work_full[2], work_empty[2];
  int work[2];
};

/// A tile of rows and a head.
struct Work {
  int row_tile, head;
};

/// The index-th: sections of heads, in each the longest tiles first, the heads of a tile together.
__device__ Work work_of(const Problem& p, int section_heads, int index) {
  const int in_section = p.row_tile_count * section_heads;
  const int in = index % in_section;
  return {p.row_tiles[in / section_heads], index / in_section * section_heads + in % section_heads};
}

__device__ void copy_tile(bf16 (&to)[panels][tile_keys * panel_channels], const CUtensorMap* map,
                          Barrier& full, int head, int row) {
  full.arrive_for(tile_bytes);
#pragma unroll
  for (int i = 0; i < panels; ++i) {
    copy_box(to[i], map, full, i * panel_channels, head, row);
  }
}

/// The thread that copies.
__device__ void produce(const Problem& p, const Maps& maps, Shared& shared, int section_heads,
                        int32_t* next) {
  const int total = p.row_tile_count * p.q_heads;
  int tiles = 0;  // of keys, so far
  for (int n = 0;; ++n) {
    const Turn<2> slot(n);
    shared.work_empty[slot.stage].wait(slot.parity ^ 1);
    const int index = atomicAdd(next, 1);
    shared.work[slot.stage] = index;
    shared.work_full[slot.stage].arrive();
    if (index >= total) {
      return;
    }
    const Work work = work_of(p, section_heads, index);
    const int kv_head = work.head / p.group();
    shared.q_empty.wait((n & 1) ^ 1);
    copy_tile(shared.q, &maps.q, shared.q_full, work.head, work.row_tile * tile_rows);
    const KeyWalk<tile_keys> walk(p, work.row_tile);
    for (int i = 0; i < walk.count(); ++i, ++tiles) {
      const Turn<stages> at(tiles);
      const int set = walk.set(i);
      shared.k_empty[at.stage].wait(at.parity ^ 1);
      copy_tile(shared.k[at.stage], &maps.k[set], shared.k_full[at.stage], kv_head, walk.key(i));
      shared.v_empty[at.stage].wait(at.parity ^ 1);
      copy_tile(shared.v[at.stage], &maps.v[set], shared.v_full[at.stage], kv_head, walk.key(i));
    }
  }
}

/// What a thread keeps of its two rows: rows g and g + 8 of its warp's 16.
struct Softmax {
  float most[2] = {-INFINITY, -INFINITY};
  float shift[2] = {0, 0};  // what exp2 takes off: the largest score in base 2, rounded
  float sum[2] = {0, 0};    // of this thread's columns
  float factor[2];          // what the sums so far are worth under the new shift

  /// Scores of a tile (64 x 128) become probabilities, not normalised.
  __device__ void take(float (&s)[64], float to_base_2) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float largest = most[h];
#pragma unroll
      for (int j = 0; j < 16; ++j) {
        largest = fmaxf(largest, fmaxf(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]));
      }
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, 2));
      const float now = largest == -INFINITY ? 0 : largest * to_base_2;
      // Exactly 1 where the largest score stays.
      factor[h] = most[h] == -INFINITY ? 0 : exp2_approximate(shift[h] - now);
      most[h] = largest;
      shift[h] = now;
      float added = 0;
#pragma unroll
      for (int j = 0; j < 16; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& x = s[4 * j + 2 * h + e];
          x = exp2_approximate(fmaf(x, to_base_2, -now));
          added += x;
        }
      }
      sum[h] = sum[h] * factor[h] + added;
    }
  }
};

/// -inf where a row does not see a key.
__device__ void hide_unseen(float (&s)[64], const Problem& p, const KeySet& set, int64_t row,
                            int key) {
  Span spans[2];
  load_spans(p, set, row, key + 2 * (threadIdx.x & 3), spans);
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    const int at = 8 * (i / 4) + (i & 1);
    const Span& span = spans[i / 2 & 1];
    s[i] = span.begin <= at && at < span.end ? s[i] : -INFINITY;
  }
}

/// Waits for this warpgroup's turn on the tensor cores; hands the turn to the other one.
template <int own>
__device__ void take_turn() {
  sync_some<1 + own, computing>();
}
template <int own>
__device__ void give_turn() {
  arrive_some<1 + (own ^ 1), computing>();
}

/// A warpgroup that computes.
template <int own>
__device__ void consume(const Problem& p, Shared& shared, int section_heads) {
  const int total = p.row_tile_count * p.q_heads;
  const bool leader = threadIdx.x % 128 == 0;
  const int lane_row = own * own_rows + static_cast<int>(threadIdx.x) % 128 / 32 * 16 +
                       static_cast<int>(threadIdx.x) % 32 / 4;
  const float to_base_2 = static_cast<float>(p.scale * 1.4426950408889634);
  const uint32_t q = shared_address(shared.q) + own * own_rows * panel_row_bytes;
  float s[64];
  uint32_t probabilities[32];
  float out[16][4];
  int tiles = 0;  // of keys, so far

  const auto add_scores = [&](int stage) {
    const uint32_t k = shared_address(shared.k[stage]);
    begin_products();
#pragma unroll
    for (int c = 0; c < channels / 16; ++c) {
      const uint32_t at = c / 4 * panel_bytes + c % 4 * 32;
      multiply(s, operand(q + at), operand(k + at), c == 0);
    }
    end_products();
  };
  const auto add_values = [&](int stage) {
    const uint32_t v = shared_address(shared.v[stage]);
    begin_products();
#pragma unroll
    for (int c = 0; c < tile_keys / 16; ++c) {
      multiply_add(reinterpret_cast<float(&)[64]>(out), probabilities + 4 * c,
                   operand(v + c * 16 * panel_row_bytes, panel_bytes));
    }
    end_products();
  };
  const auto round_probabilities = [&] {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      probabilities[i] = rounded_pair(s[2 * i], s[2 * i + 1]);
    }
  };

  for (int n = 0;; ++n) {
    const Turn<2> slot(n);
    shared.work_full[slot.stage].wait(slot.parity);
    const int index = shared.work[slot.stage];
    shared.work_empty[slot.stage].arrive();
    if (index >= total) {
      return;
    }
    const Work work = work_of(p, section_heads, index);
    const int64_t row = int64_t{work.row_tile} * tile_rows + lane_row;
    const KeyWalk<tile_keys> walk(p, work.row_tile);
    const int count = __shfl_sync(0xffffffff, walk.count(), 0);
    Softmax softmax;
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      out[i / 4][i % 4] = 0;
    }
    const auto take_scores = [&](int i) {
      if (!walk.is_full(i)) {
        hide_unseen(s, p, p.sets[walk.set(i)], row, walk.key(i));
      }
      softmax.take(s, to_base_2);
    };
    shared.q_full.wait(n & 1);
    if (count > 0) {
      {
        const Turn<stages> at(tiles);
        shared.k_full[at.stage].wait(at.parity);
        take_turn<own>();
        add_scores(at.stage);
        give_turn<own>();
        wait_for_products<0>();
        if (leader) {
          shared.k_empty[at.stage].arrive();
        }
        take_scores(0);
        round_probabilities();
      }
#pragma unroll 1
      for (int i = 1; i < count; ++i) {
        const Turn<stages> before(tiles);
        ++tiles;
        const Turn<stages> at(tiles);
        shared.k_full[at.stage].wait(at.parity);
        take_turn<own>();
        add_scores(at.stage);
        shared.v_full[before.stage].wait(before.parity);
        add_values(before.stage);
        give_turn<own>();
        wait_for_products<1>();
        if (leader) {
          shared.k_empty[at.stage].arrive();
        }
        take_scores(i);
        wait_for_products<0>();
        if (leader) {
          shared.v_empty[before.stage].arrive();
        }
#pragma unroll
        for (int j = 0; j < 64; ++j) {
          out[j / 4][j % 4] *= softmax.factor[j / 2 & 1];
        }
        round_probabilities();
      }
      const Turn<stages> last(tiles);
      ++tiles;
      if (leader) {
        shared.q_empty.arrive();
      }
      shared.v_full[last.stage].wait(last.parity);
      add_values(last.stage);
      wait_for_products<0>();
      if (leader) {
        shared.v_empty[last.stage].arrive();
      }
    } else if (leader) {
      shared.q_empty.arrive();
    }

    float z_state[2];
    load_states(p, row, work.head, z_state);
    __syncwarp();  // the lanes of a row have read before one of them writes: a row is one warp's
    float z[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      softmax.sum[h] += __shfl_xor_sync(0xffffffff, softmax.sum[h], 1);
      softmax.sum[h] += __shfl_xor_sync(0xffffffff, softmax.sum[h], 2);
      z[h] = (softmax.shift[h] + log2f(softmax.sum[h])) * 0.693147180559945309f;
    }
    write_output<float, channels>(p, row, work.head, 0, out, softmax.sum, z, z_state, true);
  }
}

__global__ void __launch_bounds__(threads, 1)
    forward_sm90_kernel(const __grid_constant__ Problem p, const __grid_constant__ Maps maps,
                        int section_heads, int32_t* next, const int32_t* not_finite) {
  extern __shared__ unsigned char memory[];
  if (*not_finite != 0) {
    return;
  }
  Shared& shared = *reinterpret_cast<Shared*>((reinterpret_cast<uintptr_t>(memory) + 1023) & ~1023);
  if (threadIdx.x == 0) {
    shared.q_full.init(1);
    shared.q_empty.init(2);
    for (int i = 0; i < stages; ++i) {
      shared.k_full[i].init(1);
      shared.k_empty[i].init(2);
      shared.v_full[i].init(1);
      shared.v_empty[i].init(2);
    }
    for (int i = 0; i < 2; ++i) {
      shared.work_full[i].init(1);
      shared.work_empty[i].init(computing);
    }
    publish_barriers();
  }
  __syncthreads();
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  if (warpgroup == 0) {
    give_registers<24>();
    if (threadIdx.x == 0) {
      produce(p, maps, shared, section_heads, next);
    }
  } else if (warpgroup == 1) {
    take_registers<240>();
    consume<0>(p, shared, section_heads);
  } else {
    take_registers<240>();
    give_turn<1>();  // the other one begins
    consume<1>(p, shared, section_heads);
  }
}

}  // namespace

void launch_forward_sm90(const Problem& problem, int32_t* next, const int32_t* not_finite,
                         cudaStream_t stream) {
  Maps maps;
  maps.q = map_of(problem.q, problem.rows, problem.q_heads, channels, tile_rows);
  int64_t key_bytes = 1;  // K and V of a head
  for (int s = 0; s < 2; ++s) {
    const KeySet& set = problem.sets[s < problem.set_count ? s : 0];
    if (problem.set_count > 0) {
      maps.k[s] = map_of(set.k, set.keys, problem.kv_heads, channels, tile_keys);
      maps.v[s] = map_of(set.v, set.keys, problem.kv_heads, channels, tile_keys);
    }
    key_bytes += s < problem.set_count ? set.keys * 2 * channels * 2 : 0;
  }
  const int section = section_of(problem.kv_heads, key_bytes) * problem.group();
  constexpr int bytes = sizeof(Shared) + 1024;
  static_assert(bytes <= 227 * 1024);
  check(
      cudaFuncSetAttribute(forward_sm90_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
      "shared memory of the forward");
  check(cudaMemsetAsync(next, 0, sizeof(int32_t), stream), "start of the tile counter");
  forward_sm90_kernel<<<multiprocessors(), threads, bytes, stream>>>(problem, maps, section, next,
                                                                     not_finite);
  check(cudaGetLastError(), "launch of the forward");
}

}  // namespace bdlm::cuda
