#pragma once
// One attention call, checked: what the kernels work on.

#include <cstdint>

#include "optimized/cpu/tensor_view.h"
#include "reference/layout/interval.h"

namespace bdlm::cpu {

/// The element types of a backend's contract.
struct Formats {
  Element input = Element::fp32;     ///< Q, K, V, dO, parameters
  Element output = Element::fp32;    ///< O that no other call continues from
  Element gradient = Element::fp32;  ///< dQ, dK, dV that no other call continues from
};

/// N keys of one stream, and which of them each query row sees.
struct KeySet {
  TensorView k, v;           // (N, Hkv, D)
  const int64_t* intervals;  // (R, 2)
  TensorView dk, dv;         // (N, Hkv, D); backward only
  int64_t size() const { return k.size(0); }
  Interval seen(int64_t row) const { return {intervals[2 * row], intervals[2 * row + 1]}; }
};

struct AttentionShape {
  int64_t rows = 0;  ///< R
  int64_t q_heads = 1, kv_heads = 1;
  int64_t head_dim = 1;  ///< D

  /// Query heads per KV head. Query head h reads KV head h / group.
  int64_t group() const { return q_heads / kv_heads; }
};

inline constexpr int64_t most_key_sets = 2;

struct AttentionProblem {
  AttentionShape shape;
  float scale = 1;
  TensorView q;  // (R, Hq, D)
  int64_t key_set_count = 0;
  KeySet key_sets[most_key_sets];
  TensorView o_state, lse_state;  // (R, Hq, D), (R, Hq); may not exist
  TensorView o, lse;              // the same: outputs of the forward, inputs of the backward
  TensorView d_o;                 // (R, Hq, D); backward only, as are:
  TensorView dq_state, dq;        // (R, Hq, D); dq_state may not exist
};

/// The call as a problem. Throws InputError for a pointer that is missing, a shape, an element type
/// or an interval that does not fit.
AttentionProblem read_problem(const bdlm_attention_args& args, const Formats& formats);
AttentionProblem read_problem(const bdlm_attention_backward_args& args, const Formats& formats);

}  // namespace bdlm::cpu
