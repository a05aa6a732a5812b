// Attention backward for 128 channels, for the tensor cores and the copy engine of compute
// capability 9.0. Its readable twins are query_gradient.cu and key_gradient.cu.
//
// A CTA has a tile of 128 keys of one KV head, and walks over the tiles of 64 query rows that see
// any of them, of all query heads of the group, so that dK and dV stay in registers. Two warpgroups
// have 64 keys each; S and dP are computed transposed, keys by rows, so that P and dS come out of
// the accumulators as the left operands of dV += P^T dO and dK += dS^T Q. dQ of the tile of rows,
// of which each warpgroup computes 64 channels, needs dS of both, through shared memory.
//
// Parts of dQ are added in memory by the copy engine, in the order of the keys: a tile of rows has
// a counter of the parts that it has, and a part waits for its number. So results do not depend on
// timing. All CTAs walk over the rows from the last to the first and take tiles of keys in
// ascending order: the first tiles of keys, which most rows see, begin first and never wait, and
// each of the others follows the one before it.

#include <algorithm>

#include "optimized/cuda/failure.h"
#include "optimized/cuda/sm90/kernels.h"
#include "optimized/cuda/sm90/pipeline.cuh"
#include "optimized/cuda/sm90/query_sums.cuh"
#include "optimized/cuda/sm90/tensor_map.h"
#include "optimized/cuda/sm90/wgmma.cuh"
#include "optimized/cuda/tensor_access.cuh"

namespace bdlm::cuda {
namespace {

using namespace backward_sm90;

constexpr int panels = channels / panel_channels;
constexpr int own_keys = 64;  // of a warpgroup
constexpr int stages = 2;
constexpr int threads = 3 * 128;
constexpr int computing = 2 * 128;
constexpr int key_panel_bytes = tile_keys * panel_row_bytes;
constexpr int row_panel_bytes = tile_rows * panel_row_bytes;
constexpr int key_bytes = tile_keys * channels * 2;
constexpr int row_bytes = tile_rows * channels * 2;
constexpr int ring = 4;

struct Maps {
  CUtensorMap q, d_o, k[2], v[2];
};

/// A tile of query rows of a head, for a tile of keys.
struct Visit {
  int row_tile;  // `no_more`: the tile of keys is finished
  int head;
  int full;  // every row sees every key
  int turn;  // how many parts of dQ come before this one
};
constexpr int no_more = -1;

/// A tile of keys.
struct Work {
  int set;  // `no_more`
  int tile, kv_head;
};

struct Shared {
  alignas(1024) bf16 k[panels][tile_keys * panel_channels];
  alignas(1024) bf16 v[panels][tile_keys * panel_channels];
  alignas(1024) bf16 q[stages][panels][tile_rows * panel_channels];
  alignas(1024) bf16 d_o[stages][panels][tile_rows * panel_channels];
  alignas(1024) bf16 ds[2][tile_keys * tile_rows];  // (keys, rows), swizzled
  alignas(1024) float4 dq[2][8][128];               // of a warpgroup, in the order of its registers
  alignas(128) float shift[stages][tile_rows];
  alignas(128) float delta[stages][tile_rows];
  Barrier keys_full, keys_empty, q_full[stages], q_empty[stages], d_o_full[stages],
      d_o_empty[stages];
  Barrier dq_full, dq_empty;
  Visit visit[stages];
  Visit written[ring];  // for the thread that adds dQ
  Work work;
};

/// The warp that copies.
__device__ void produce(const Problem& p, const Maps& maps, Shared& shared, int section,
                        int32_t* next) {
  const int lane = static_cast<int>(threadIdx.x);
  int tiles[2] = {0, 0};
  for (int s = 0; s < p.set_count; ++s) {
    tiles[s] = static_cast<int>((p.sets[s].keys + tile_keys - 1) / tile_keys);
  }
  const int in_section = (tiles[0] + tiles[1]) * section;
  const int total = (tiles[0] + tiles[1]) * p.kv_heads;
  int visits = 0;
  int written = 0;

  const auto send = [&](const Visit& visit) {
    if (lane == 0) {
      const Turn<stages> at(visits);
      shared.q_empty[at.stage].wait(at.parity ^ 1);
      shared.d_o_empty[at.stage].wait(at.parity ^ 1);
      shared.visit[at.stage] = visit;
      if (visit.row_tile == no_more) {
        shared.q_full[at.stage].arrive();
        shared.d_o_full[at.stage].arrive();
      } else {
        shared.written[written++ % ring] = visit;
        const int row = visit.row_tile * tile_rows;
        const int64_t number = visit.head * p.padded_rows + row;
        constexpr uint32_t number_bytes = tile_rows * sizeof(float);
        Barrier& q_full = shared.q_full[at.stage];
        q_full.arrive_for(row_bytes + number_bytes);
        Barrier& d_o_full = shared.d_o_full[at.stage];
        d_o_full.arrive_for(row_bytes + number_bytes);
        for (int i = 0; i < panels; ++i) {
          copy_box(shared.q[at.stage][i], &maps.q, q_full, i * panel_channels, visit.head, row);
        }
        copy_bytes(shared.shift[at.stage], static_cast<const float*>(p.shift) + number,
                   number_bytes, q_full);
        for (int i = 0; i < panels; ++i) {
          copy_box(shared.d_o[at.stage][i], &maps.d_o, d_o_full, i * panel_channels, visit.head,
                   row);
        }
        copy_bytes(shared.delta[at.stage], static_cast<const float*>(p.delta) + number,
                   number_bytes, d_o_full);
      }
    }
    ++visits;
    __syncwarp();
  };

  for (int n = 0;; ++n) {
    int index = lane == 0 ? atomicAdd(next, 1) : 0;
    index = __shfl_sync(0xffffffff, index, 0);
    Work work{no_more, 0, 0};
    if (index < total) {
      const int in = index % in_section;
      const int tile = in / section;
      work = {tile < tiles[0] ? 0 : 1, tile < tiles[0] ? tile : tile - tiles[0],
              index / in_section * section + in % section};
    }
    const int key = work.tile * tile_keys;
    if (lane == 0) {
      shared.keys_empty.wait((n & 1) ^ 1);
      shared.work = work;
      if (work.set == no_more) {
        shared.written[written % ring].row_tile = no_more;
        shared.keys_full.arrive();
      } else {
        shared.keys_full.arrive_for(2 * key_bytes);
        for (int i = 0; i < panels; ++i) {
          copy_box(shared.k[i], &maps.k[work.set], shared.keys_full, i * panel_channels,
                   work.kv_head, key);
          copy_box(shared.v[i], &maps.v[work.set], shared.keys_full, i * panel_channels,
                   work.kv_head, key);
        }
      }
    }
    __syncwarp();
    if (work.set == no_more) {
      return;
    }
    for (int g = 0; g < p.group(); ++g) {
      for (int first = (p.streamed_count - 1) / 32 * 32; first >= 0; first -= 32) {
        // A lane looks at a tile of rows.
        const int row_tile = first + lane;
        Visit visit{row_tile, work.kv_head * p.group() + g, 0, 0};
        bool meets = false;
        if (row_tile < p.streamed_count) {
          const Cover c = p.sets[work.set].streamed[row_tile];
          const int before = work.set == 0 ? 0 : tiles_of(p.sets[0].streamed[row_tile]);
          meets = c.begin < key + tile_keys && key < c.end && c.begin < c.end;
          visit.full = c.full_begin <= key && key + tile_keys <= c.full_end;
          visit.turn = before + work.tile - c.begin / tile_keys;
        }
        for (uint32_t rest = __ballot_sync(0xffffffff, meets); rest != 0;) {
          const int last = 31 - __clz(static_cast<int>(rest));
          rest ^= 1u << last;
          send({first + last, visit.head, __shfl_sync(0xffffffff, visit.full, last),
                __shfl_sync(0xffffffff, visit.turn, last)});
        }
      }
    }
    send({no_more, 0, 0, 0});
  }
}

/// The thread that adds parts of dQ in memory, each when it is its turn.
__device__ void add_query_sums(const Problem& p, Shared& shared, const QuerySums& to) {
  constexpr uint32_t bytes = vectors * sizeof(float4);
  for (int n = 0;; ++n) {
    shared.dq_full.wait(n & 1);
    const Visit visit = shared.written[n % ring];
    if (visit.row_tile == no_more) {
      return;
    }
    const int64_t at = to.index(p, visit.head, visit.row_tile);
    int32_t parts = 0;
    do {
      asm volatile("ld.acquire.gpu.global.b32 %0, [%1];"
                   : "=r"(parts)
                   : "l"(to.parts + at)
                   : "memory");
    } while (parts != visit.turn);
    if (visit.turn == 0) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                       to.sums + at * vectors),
                   "r"(shared_address(shared.dq)), "r"(bytes)
                   : "memory");
    } else {
      asm volatile(
          "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(
              to.sums + at * vectors),
          "r"(shared_address(shared.dq)), "r"(bytes)
          : "memory");
    }
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    shared.dq_empty.arrive();
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");  // written, not only read
    asm volatile("fence.proxy.async;" ::: "memory");
    asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(to.parts + at) : "memory");
  }
}

/// A warpgroup that computes: keys [64 own, 64 own + 64) of the tile.
template <int own>
__device__ void consume(const Problem& p, Shared& shared) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int column = 2 * (lane % 4);
  const bool leader = thread == 0;
  const float to_base_2 = static_cast<float>(p.scale * 1.4426950408889634);
  const float scale = static_cast<float>(p.scale);
  const uint32_t k = shared_address(shared.k);
  const uint32_t v = shared_address(shared.v);
  constexpr int own_bytes = own * own_keys * panel_row_bytes;
  int visits = 0;
  int parts = 0;
  float dk[64];
  float dv[64];

  for (int n = 0;; ++n) {
    shared.keys_full.wait(n & 1);
    const Work work = shared.work;
    if (work.set == no_more) {
      shared.dq_full.arrive();
      return;
    }
    const int key = work.tile * tile_keys + own * own_keys + warp * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      dk[i] = dv[i] = 0;
    }
#pragma unroll 1
    for (;; ++visits) {
      const Turn<stages> at(visits);
      shared.q_full[at.stage].wait(at.parity);
      const Visit visit = shared.visit[at.stage];
      if (visit.row_tile == no_more) {
        break;
      }
      const uint32_t q = shared_address(shared.q[at.stage]);
      const uint32_t d_o = shared_address(shared.d_o[at.stage]);
      // Keys by rows (64 x 64).
      float s[32];
      float dp[32];
      begin_products();
#pragma unroll
      for (int c = 0; c < channels / 16; ++c) {
        multiply<false>(s, operand(k + own_bytes + c / 4 * key_panel_bytes + c % 4 * 32),
                        operand(q + c / 4 * row_panel_bytes + c % 4 * 32), c == 0);
      }
      end_products();
      shared.d_o_full[at.stage].wait(at.parity);
      begin_products();
#pragma unroll
      for (int c = 0; c < channels / 16; ++c) {
        multiply<false>(dp, operand(v + own_bytes + c / 4 * key_panel_bytes + c % 4 * 32),
                        operand(d_o + c / 4 * row_panel_bytes + c % 4 * 32), c == 0);
      }
      end_products();
      wait_for_products<1>();
      if (visit.full == 0) {
        const Span* spans = p.sets[work.set].spans + visit.row_tile * tile_rows + column;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const Span span = spans[8 * j + e];
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              float& x = s[4 * j + 2 * h + e];
              x = span.begin <= key + 8 * h && key + 8 * h < span.end ? x : -INFINITY;
            }
          }
        }
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float2 z = *reinterpret_cast<const float2*>(&shared.shift[at.stage][8 * j + column]);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float* x = s + 4 * j + 2 * h;
          x[0] = exp2_gradual(fmaf(x[0], to_base_2, -z.x));
          x[1] = exp2_gradual(fmaf(x[1], to_base_2, -z.y));
        }
      }
      wait_for_products<0>();
      uint32_t probabilities[16];
      uint32_t ds[16];
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float2 z = *reinterpret_cast<const float2*>(&shared.delta[at.stage][8 * j + column]);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const float* x = s + 4 * j + 2 * h;
          const float* y = dp + 4 * j + 2 * h;
          probabilities[2 * j + h] = rounded_pair(x[0], x[1]);
          ds[2 * j + h] = rounded_pair(x[0] * (y[0] - z.x), x[1] * (y[1] - z.y));
        }
      }
      begin_products();
#pragma unroll
      for (int c = 0; c < tile_rows / 16; ++c) {
        multiply_add(dv, probabilities + 4 * c,
                     operand(d_o + c * 16 * panel_row_bytes, row_panel_bytes));
      }
      end_products();
      bf16* ds_shared = shared.ds[visits & 1];
      const uint32_t ds_row =
          shared_address(ds_shared) + own_bytes + (warp * 16 + lane % 16) * panel_row_bytes;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        store_matrices(ds_row + ((2 * c + lane / 16) ^ (lane % 8)) * 16, ds + 4 * c);
      }
      publish_shared();
      sync_some<1, computing>();
      // Rows by channels [64 own, 64 own + 64).
      float dq[32];
      begin_products();
#pragma unroll
      for (int c = 0; c < tile_keys / 16; ++c) {
        multiply<true>(dq, operand(shared_address(ds_shared) + c * 16 * panel_row_bytes),
                       operand(k + own * key_panel_bytes + c * 16 * panel_row_bytes), c == 0);
      }
      end_products();
      begin_products();
#pragma unroll
      for (int c = 0; c < tile_rows / 16; ++c) {
        multiply_add(dk, ds + 4 * c, operand(q + c * 16 * panel_row_bytes, row_panel_bytes));
      }
      end_products();
      wait_for_products<1>();
      if (leader) {
        shared.d_o_empty[at.stage].arrive();
      }
      shared.dq_empty.wait((parts & 1) ^ 1);
      ++parts;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        shared.dq[own][i][thread] =
            make_float4(dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
      }
      publish_shared();
      shared.dq_full.arrive();
      wait_for_products<0>();
      if (leader) {
        shared.q_empty[at.stage].arrive();
      }
    }
    sync_some<2 + own, 128>();  // all have seen the end
    const Turn<stages> at(visits);
    ++visits;
    if (leader) {
      shared.q_empty[at.stage].arrive();
      shared.d_o_empty[at.stage].arrive();
    }
    shared.keys_empty.arrive();
    const KeySet& set = p.sets[work.set];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (key + 8 * h < set.keys) {
        const int64_t to_dk = offset_of(set.dk, key + 8 * h, work.kv_head) + column;
        const int64_t to_dv = offset_of(set.dv, key + 8 * h, work.kv_head) + column;
#pragma unroll
        for (int j = 0; j < 16; ++j) {
          const int i = 4 * j + 2 * h;
          store_pair(set.dk, to_dk + 8 * j, dk[i] * scale, dk[i + 1] * scale);
          store_pair(set.dv, to_dv + 8 * j, dv[i], dv[i + 1]);
        }
      }
    }
  }
}

__global__ void __launch_bounds__(threads, 1)
    backward_sm90_kernel(const __grid_constant__ Problem p, const __grid_constant__ Maps maps,
                         int section, QuerySums sums, int32_t* next, const int32_t* not_finite) {
  extern __shared__ unsigned char memory[];
  if (*not_finite != 0) {
    return;
  }
  Shared& shared = *reinterpret_cast<Shared*>((reinterpret_cast<uintptr_t>(memory) + 1023) & ~1023);
  if (threadIdx.x == 0) {
    shared.keys_full.init(1);
    shared.keys_empty.init(computing);
    shared.dq_full.init(computing);
    shared.dq_empty.init(1);
    for (int i = 0; i < stages; ++i) {
      shared.q_full[i].init(1);
      shared.q_empty[i].init(2);
      shared.d_o_full[i].init(1);
      shared.d_o_empty[i].init(2);
    }
    publish_barriers();
  }
  __syncthreads();
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  if (warpgroup == 0) {
    give_registers<24>();
    if (threadIdx.x < 32) {
      produce(p, maps, shared, section, next);
    } else if (threadIdx.x == 32) {
      add_query_sums(p, shared, sums);
    }
  } else if (warpgroup == 1) {
    take_registers<240>();
    consume<0>(p, shared);
  } else {
    take_registers<240>();
    consume<1>(p, shared);
  }
}

}  // namespace

void launch_backward_sm90(const Problem& problem, const BackwardSm90Memory& memory,
                          const int32_t* not_finite, cudaStream_t stream) {
  Maps maps;
  maps.q = map_of(problem.q, problem.rows, problem.q_heads, channels, tile_rows);
  maps.d_o = map_of(problem.d_o, problem.rows, problem.q_heads, channels, tile_rows);
  for (int s = 0; s < problem.set_count; ++s) {
    const KeySet& set = problem.sets[s];
    maps.k[s] = map_of(set.k, set.keys, problem.kv_heads, channels, tile_keys);
    maps.v[s] = map_of(set.v, set.keys, problem.kv_heads, channels, tile_keys);
  }
  const int64_t tiles = int64_t{problem.streamed_count} * problem.q_heads;
  const QuerySums sums{reinterpret_cast<float4*>(memory.sums), memory.counters};
  int32_t* next = memory.counters + tiles;
  constexpr int bytes = sizeof(Shared) + 1024;
  static_assert(bytes <= 227 * 1024);
  check(cudaFuncSetAttribute(backward_sm90_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             bytes),
        "shared memory of the backward");
  check(cudaMemsetAsync(memory.counters, 0, (tiles + 1) * sizeof(int32_t), stream),
        "start of the counters");
  // All heads at a time: the CTAs of a head follow one another, and more heads mean fewer waits.
  backward_sm90_kernel<<<multiprocessors(), threads, bytes, stream>>>(
      problem, maps, problem.kv_heads, sums, next, not_finite);
  check(cudaGetLastError(), "launch of the backward");
  launch_finish_query_gradient(problem, sums, not_finite, stream);
}

}  // namespace bdlm::cuda
