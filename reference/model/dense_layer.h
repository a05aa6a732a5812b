#pragma once
// One transformer layer: forward, and the hand-written backward beside it.
//
//   n1 = rms(x) ; q, k, v = n1 Wq', n1 Wk', n1 Wv' ; q, k = rope(rms(q)), rope(rms(k))
//   h  = x + attention(q, k, v) Wo'
//   n2 = rms(h) ; y = h + (silu(n2 Wg') * (n2 Wu')) Wd'
//
// The inner norms of q and k, per head, are there with qk_norm only.

#include <span>
#include <vector>

#include "reference/math/linear.h"
#include "reference/math/rms_norm.h"
#include "reference/math/rope.h"
#include "reference/math/swiglu.h"
#include "reference/model/attention_layer.h"
#include "reference/model/dense_parameters.h"

namespace bdlm {

/// What a layer's backward reads of its forward. R rows.
template <class T>
struct LayerActivations {
  std::vector<T> x;         // (R, hidden) the layer's input
  std::vector<T> n1;        // (R, hidden) normalised input
  std::vector<T> q0;        // (R, q_heads, head_dim) before the norm of heads
  std::vector<T> k0;        // (R, kv_heads, head_dim)
  std::vector<T> o;         // (R, q_heads, head_dim) attention output
  std::vector<T> h;         // (R, hidden) after attention
  std::vector<T> n2;        // (R, hidden) normalised h
  std::vector<T> gate, up;  // (R, mlp)
  std::vector<T> m;         // (R, mlp) silu(gate) * up
};

/// One layer of a dense model over the rows whose document-relative positions are given.
template <class T>
class DenseLayer {
 public:
  DenseLayer(const DenseConfig& config, const DenseParameters<T>& parameters, int64_t layer,
             std::span<const int64_t> positions, AttentionLayer<T>& attention)
      : config_(config),
        parameters_(parameters),
        entries_(parameters.table().layers[layer]),
        layer_(layer),
        positions_(positions),
        rows_(static_cast<int64_t>(positions.size())),
        q_width_(config.q_heads * config.head_dim),
        kv_width_(config.kv_heads * config.head_dim),
        attention_(attention) {}

  /// The output (R, hidden) for the input `a.x`; fills `a`. With `keep`, attention is readied for
  /// `backward`.
  std::vector<T> forward(bool keep, LayerActivations<T>& a) {
    const int64_t hidden = config_.hidden;
    a.n1 = norm(a.x, rows_, hidden, entries_.input_norm);
    a.q0 = project(a.n1, hidden, q_width_, entries_.q_proj);
    a.k0 = project(a.n1, hidden, kv_width_, entries_.k_proj);
    const std::vector<T> v = project(a.n1, hidden, kv_width_, entries_.v_proj);
    const std::vector<T> q = rotated(a.q0, config_.q_heads, entries_.q_norm);
    const std::vector<T> k = rotated(a.k0, config_.kv_heads, entries_.k_norm);
    a.o.assign(rows_ * q_width_, T(0));
    attention_.forward(layer_, keep, q.data(), k.data(), v.data(), a.o.data());

    a.h = sum(a.x, project(a.o, q_width_, hidden, entries_.o_proj));
    a.n2 = norm(a.h, rows_, hidden, entries_.post_norm);
    a.gate = project(a.n2, hidden, config_.mlp, entries_.gate_proj);
    a.up = project(a.n2, hidden, config_.mlp, entries_.up_proj);
    a.m.assign(rows_ * config_.mlp, T(0));
    swiglu_forward<T>(rows_ * config_.mlp, a.gate.data(), a.up.data(), a.m.data());
    return sum(a.h, project(a.m, config_.mlp, hidden, entries_.down_proj));
  }

  /// The gradient of `a.x` from that of the output, `d_y` (R, hidden); adds to `gradients`.
  std::vector<T> backward(const LayerActivations<T>& a, const std::vector<T>& d_y,
                          DenseParameters<T>& gradients) {
    const int64_t hidden = config_.hidden;
    std::vector<T> d_m(rows_ * config_.mlp, T(0));
    project_backward(a.m, config_.mlp, hidden, entries_.down_proj, d_y, d_m, gradients);
    std::vector<T> d_gate(d_m.size(), T(0));
    std::vector<T> d_up(d_m.size(), T(0));
    swiglu_backward<T>(rows_ * config_.mlp, a.gate.data(), a.up.data(), d_m.data(), d_gate.data(),
                       d_up.data());
    std::vector<T> d_n2(rows_ * hidden, T(0));
    project_backward(a.n2, hidden, config_.mlp, entries_.gate_proj, d_gate, d_n2, gradients);
    project_backward(a.n2, hidden, config_.mlp, entries_.up_proj, d_up, d_n2, gradients);
    std::vector<T> d_h = d_y;
    norm_backward(a.h, rows_, hidden, entries_.post_norm, d_n2, d_h, gradients);

    std::vector<T> d_o(rows_ * q_width_, T(0));
    project_backward(a.o, q_width_, hidden, entries_.o_proj, d_h, d_o, gradients);
    std::vector<T> d_q(rows_ * q_width_, T(0));
    std::vector<T> d_k(rows_ * kv_width_, T(0));
    std::vector<T> d_v(rows_ * kv_width_, T(0));
    attention_.backward(layer_, d_o.data(), d_q.data(), d_k.data(), d_v.data());
    const std::vector<T> d_q0 =
        rotated_backward(a.q0, config_.q_heads, entries_.q_norm, d_q, gradients);
    const std::vector<T> d_k0 =
        rotated_backward(a.k0, config_.kv_heads, entries_.k_norm, d_k, gradients);
    std::vector<T> d_n1(rows_ * hidden, T(0));
    project_backward(a.n1, hidden, q_width_, entries_.q_proj, d_q0, d_n1, gradients);
    project_backward(a.n1, hidden, kv_width_, entries_.k_proj, d_k0, d_n1, gradients);
    project_backward(a.n1, hidden, kv_width_, entries_.v_proj, d_v, d_n1, gradients);
    norm_backward(a.x, rows_, hidden, entries_.input_norm, d_n1, d_h, gradients);
    return d_h;
  }

 private:
  std::vector<T> project(const std::vector<T>& x, int64_t in, int64_t out, size_t entry) const {
    std::vector<T> y(rows_ * out, T(0));
    linear_forward<T>(rows_, in, out, x.data(), parameters_[entry], y.data());
    return y;
  }

  /// d_x += and the weight's gradient += .
  void project_backward(const std::vector<T>& x, int64_t in, int64_t out, size_t entry,
                        const std::vector<T>& d_y, std::vector<T>& d_x,
                        DenseParameters<T>& gradients) const {
    linear_backward<T>(rows_, in, out, x.data(), parameters_[entry], d_y.data(), d_x.data(),
                       gradients[entry]);
  }

  std::vector<T> norm(const std::vector<T>& x, int64_t vectors, int64_t width, size_t entry) const {
    std::vector<T> y(x.size(), T(0));
    rms_norm_forward<T>(vectors, width, config_.rms_eps, x.data(), parameters_[entry], y.data());
    return y;
  }

  /// d_x += and the weight's gradient += .
  void norm_backward(const std::vector<T>& x, int64_t vectors, int64_t width, size_t entry,
                     const std::vector<T>& d_y, std::vector<T>& d_x,
                     DenseParameters<T>& gradients) const {
    rms_norm_backward<T>(vectors, width, config_.rms_eps, x.data(), parameters_[entry], d_y.data(),
                         d_x.data(), gradients[entry]);
  }

  /// Heads (R, heads, head_dim), normalised where the model does so, then rotated.
  std::vector<T> rotated(const std::vector<T>& x, int64_t heads, size_t norm_entry) const {
    std::vector<T> y = config_.qk_norm ? norm(x, rows_ * heads, config_.head_dim, norm_entry) : x;
    rope_forward<T>(heads, config_.head_dim, config_.rope_theta, positions_, y.data());
    return y;
  }

  std::vector<T> rotated_backward(const std::vector<T>& x, int64_t heads, size_t norm_entry,
                                  std::vector<T> d_y, DenseParameters<T>& gradients) const {
    rope_backward<T>(heads, config_.head_dim, config_.rope_theta, positions_, d_y.data());
    if (!config_.qk_norm) {
      return d_y;
    }
    std::vector<T> d_x(x.size(), T(0));
    norm_backward(x, rows_ * heads, config_.head_dim, norm_entry, d_y, d_x, gradients);
    return d_x;
  }

  static std::vector<T> sum(std::vector<T> a, const std::vector<T>& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] += b[i];
    }
    return a;
  }

  const DenseConfig& config_;
  const DenseParameters<T>& parameters_;
  LayerEntries entries_;
  int64_t layer_;
  std::span<const int64_t> positions_;
  int64_t rows_, q_width_, kv_width_;
  AttentionLayer<T>& attention_;
};

}  // namespace bdlm
