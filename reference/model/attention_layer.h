#pragma once
// What a model needs of attention, which alone mixes rows.

#include <cstdint>

namespace bdlm {

/// The attention of all layers over a fixed set of R rows. Everything else in a model is local to a
/// row, so that whoever implements this decides on masks, ranks and transfers.
template <class T>
class AttentionLayer {
 public:
  virtual ~AttentionLayer() = default;

  /// o (R, q_heads, head_dim) from q (R, q_heads, head_dim), k and v (R, kv_heads, head_dim), q and
  /// k already rotated. With `keep`, what `backward(layer)` needs is kept until it has run; calling
  /// again replaces it.
  virtual void forward(int64_t layer, bool keep, const T* q, const T* k, const T* v, T* o) = 0;

  /// dq, dk, dv of the loss from d_o, each of the shape of its counterpart.
  virtual void backward(int64_t layer, const T* d_o, T* dq, T* dk, T* dv) = 0;
};

}  // namespace bdlm
