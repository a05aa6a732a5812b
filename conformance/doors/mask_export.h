#pragma once
// Masks in the forms that kernels take.

#include <string>
#include <vector>

#include "reference/base/safetensors_writer.h"
#include "reference/layout/visibility.h"

namespace bdlm {

enum class MaskFormat : uint8_t {
  dense,       ///< "mask" BOOL (2L, 2L): row by key, the clean stream first, then the corrupted
  intervals,   ///< "intervals" I64 (2, L, 2, 2): [begin, end) by row's and key's stream
  flex,        ///< a Python source with mask_mod(b, h, q_idx, kv_idx) over 2L rows
  cu_seqlens,  ///< of one pair of streams, for kernels of packed sequences
};
/// Throws InputError naming the known formats.
MaskFormat parse_mask_format(const std::string& text);

/// A pair of streams, whose rows of one stream see keys of the other.
struct MaskPart {
  Stream query = Stream::corrupted;
  Stream key = Stream::corrupted;
};
/// "corrupted-clean": queries, then keys. Throws InputError naming the known ones.
MaskPart parse_mask_part(const std::string& text);

/// Throws InputError where 2L x 2L has more than 2^32 elements.
std::vector<TensorData> dense_mask(const Sequence& sequence, const LayerRule& rule);
std::vector<TensorData> interval_mask(const Sequence& sequence, const LayerRule& rule);

/// What a kernel of packed sequences is called with: sequence n has the rows [cu_q[n], cu_q[n + 1])
/// and the keys [cu_k[n], cu_k[n + 1]) of what `rows` and `keys` name.
struct PackedMask {
  /// (n + 1)
  std::vector<int64_t> cu_q, cu_k;
  /// Positions in the stream; padding is left out.
  std::vector<int64_t> rows, keys;
  bool causal = false;
  /// Keys before the row's own that it sees; -1 for all.
  int64_t window_left = -1;
};

/// Throws InputError, which says why, where the mask of the pair cannot be expressed so: sequences
/// cannot share keys. What can: corrupted rows on corrupted keys; clean rows on clean keys where
/// they are token-causal, or where every document is one block.
PackedMask packed_mask(const Sequence& sequence, const LayerRule& rule, const MaskPart& part);
/// The same as tensors "cu_seqlens_q", "cu_seqlens_k" I32, "rows", "keys" I64.
std::vector<TensorData> packed_tensors(const PackedMask& mask);

/// Python source for PyTorch's FlexAttention, which needs no file beside it: `mask_mod`, and
/// `sees`, the same on plain integers.
std::string flex_mask(const Sequence& sequence, const LayerRule& rule);

}  // namespace bdlm
