#pragma once
// What kernels know of a call: plain structs that are passed to the device by value.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace bdlm::cuda {

/// The formats of tensors.
enum class Element : int32_t { bf16, fp32, f64 };

/// A tensor (rows, heads, channels) in device memory; strides in elements, channels adjacent.
/// `data` is null where the call has no such tensor.
struct HeadRows {
  void* data = nullptr;
  int64_t row_stride = 0;
  int64_t head_stride = 0;
  Element element = Element::bf16;
};

/// A number a row and head: (rows, heads), heads adjacent.
struct RowNumbers {
  void* data = nullptr;
  int64_t row_stride = 0;
  Element element = Element::fp32;
};

/// The stored keys that a row sees: [begin, end), empty where the two are equal.
struct Span {
  int32_t begin, end;
};

/// What a tile of query rows sees of a key set. Every key that any of its rows sees is in [begin,
/// end); the keys [full_begin, full_end) are seen by all of them.
struct Cover {
  int32_t begin, end;
  int32_t full_begin, full_end;
};

/// A tile of keys of a key set.
struct KeyTile {
  int32_t set, tile;
};

/// A set of keys, with what the rows see of it.
struct KeySet {
  int64_t keys = 0;                 ///< N
  HeadRows k, v;                    ///< (N, Hkv, D)
  HeadRows dk, dv;                  ///< (N, Hkv, D)
  const Span* spans = nullptr;      ///< (R), then empty spans up to a whole tile
  const Cover* covers = nullptr;    ///< of the tiles of rows of the forward, or of dQ
  const Cover* streamed = nullptr;  ///< of the tiles of rows that dK and dV read
};

/// One attention call, forward or backward.
struct Problem {
  int64_t rows = 0;  ///< R
  int32_t q_heads = 1, kv_heads = 1, head_dim = 1;
  double scale = 1;
  /// Kernels that look at it run only where the number is not 0; null: they run.
  const int32_t* only_if = nullptr;
  bool vector_loads = false;  ///< rows of q, k, v and d_o are whole and aligned 16-byte vectors
  HeadRows q;                 ///< (R, Hq, D)
  int32_t set_count = 0;
  KeySet sets[2];
  const int32_t* row_tiles = nullptr;  ///< the tiles of rows, those with most keys first
  int32_t row_tile_count = 0;
  // Forward.
  HeadRows o_state, o;        ///< (R, Hq, D)
  RowNumbers lse_state, lse;  ///< (R, Hq); of the backward lse is an input
  // Backward.
  HeadRows d_o, dq_state, dq;          ///< (R, Hq, D)
  const KeyTile* key_tiles = nullptr;  ///< those seen by most tiles of rows first
  int32_t key_tile_count = 0;          ///< of all key sets
  int32_t streamed_count = 0;          ///< tiles of rows that dK and dV read
  int64_t padded_rows = 0;             ///< R rounded up to a whole tile of rows
  void* delta = nullptr;               ///< (Hq, padded rows): sum over channels of d_o o
  void* shift = nullptr;               ///< (Hq, padded rows): what exp takes off a score

  __host__ __device__ int32_t group() const { return q_heads / kv_heads; }
};

}  // namespace bdlm::cuda
