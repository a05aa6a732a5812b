#pragma once
// One transformer layer: forward, and the hand-written backward.
//
//   n1 = rms(x) ; q, k, v = n1 Wq', n1 Wk', n1 Wv' ; q, k = rope(rms(q)), rope(rms(k))
//   h  = x + attention(q, k, v) Wo'
//   n2 = rms(h) ; y = h + (silu(n2 Wg') * (n2 Wu')) Wd'
//
// The inner norms of q and k, per head, are there with qk_norm only.

#include "optimized/cpu/layers.h"
#include "optimized/cpu/rank_attention.h"

namespace bdlm::cpu {

/// What a layer's backward reads of its forward. R rows.
struct Activations {
  Floats x;         // (R, hidden) the layer's input
  Floats n1;        // (R, hidden) normalised input
  Floats q0, k0;    // (R, heads, head_dim) before the norm of heads; with qk_norm only
  Floats o;         // (R, q_heads, head_dim) attention output
  Floats h;         // (R, hidden) after attention
  Floats n2;        // (R, hidden) normalised h
  Floats gate, up;  // (R, mlp)
  Floats m;         // (R, mlp) silu(gate) * up
};

class DenseLayer {
 public:
  /// Keeps references to everything.
  DenseLayer(const Model& model, const ParameterValues& parameters, int64_t layer, int64_t rows,
             const Rope& rope, RankAttention& attention);

  /// The output (R, hidden) for the input `a.x`; fills `a`. With `keep`, attention is readied for
  /// `backward`.
  Floats forward(bool keep, Activations& a);

  /// The gradient of `a.x` from that of the output, `d_y` (R, hidden); adds to `gradients`.
  Floats backward(const Activations& a, Floats d_y, ParameterValues& gradients);

 private:
  Floats project(const Floats& x, int64_t in, int64_t out, size_t entry) const;
  void project_backward(const Floats& x, int64_t in, int64_t out, size_t entry, const Floats& d_y,
                        Floats& d_x, ParameterValues& gradients) const;
  Floats norm(const Floats& x, int64_t width, size_t entry) const;
  void norm_backward(const Floats& x, int64_t width, size_t entry, const Floats& d_y, Floats& d_x,
                     ParameterValues& gradients) const;
  /// Heads, normalised where the model does so, then rotated.
  Floats rotated(Floats x, int64_t heads, size_t norm_entry, Floats& before) const;
  Floats rotated_backward(const Floats& before, int64_t heads, size_t norm_entry, Floats d_y,
                          ParameterValues& gradients) const;

  const Model& model_;
  const ParameterValues& parameters_;
  const LayerParameters& entries_;
  int64_t layer_, rows_;
  const Rope& rope_;
  RankAttention& attention_;
};

}  // namespace bdlm::cpu
