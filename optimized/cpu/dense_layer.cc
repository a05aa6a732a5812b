#include "optimized/cpu/dense_layer.h"

namespace bdlm::cpu {
namespace {

/// a += b
void add(Floats& a, const Floats& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] += b[i];
  }
}

}  // namespace

DenseLayer::DenseLayer(const Model& model, const ParameterValues& parameters, int64_t layer,
                       int64_t rows, const Rope& rope, RankAttention& attention)
    : model_(model),
      parameters_(parameters),
      entries_(parameters.list().layers[layer]),
      layer_(layer),
      rows_(rows),
      rope_(rope),
      attention_(attention) {}

Floats DenseLayer::forward(bool keep, Activations& a) {
  const int64_t hidden = model_.hidden;
  a.n1 = norm(a.x, hidden, entries_.input_norm);
  a.o = attention_.forward(layer_, keep,
                           rotated(project(a.n1, hidden, model_.q_width(), entries_.q_proj),
                                   model_.q_heads, entries_.q_norm, a.q0),
                           rotated(project(a.n1, hidden, model_.kv_width(), entries_.k_proj),
                                   model_.kv_heads, entries_.k_norm, a.k0),
                           project(a.n1, hidden, model_.kv_width(), entries_.v_proj));
  a.h = project(a.o, model_.q_width(), hidden, entries_.o_proj);
  add(a.h, a.x);
  a.n2 = norm(a.h, hidden, entries_.post_norm);
  a.gate = project(a.n2, hidden, model_.mlp, entries_.gate_proj);
  a.up = project(a.n2, hidden, model_.mlp, entries_.up_proj);
  a.m.resize(a.gate.size());
  swiglu_forward(rows_ * model_.mlp, a.gate.data(), a.up.data(), a.m.data());
  Floats y = project(a.m, model_.mlp, hidden, entries_.down_proj);
  add(y, a.h);
  return y;
}

Floats DenseLayer::backward(const Activations& a, Floats d_y, ParameterValues& gradients) {
  const int64_t hidden = model_.hidden;
  Floats d_m(a.m.size(), 0.0F);
  project_backward(a.m, model_.mlp, hidden, entries_.down_proj, d_y, d_m, gradients);
  Floats d_gate(d_m.size());
  Floats d_up(d_m.size());
  swiglu_backward(rows_ * model_.mlp, a.gate.data(), a.up.data(), d_m.data(), d_gate.data(),
                  d_up.data());
  Floats d_n2(a.n2.size(), 0.0F);
  project_backward(a.n2, hidden, model_.mlp, entries_.gate_proj, d_gate, d_n2, gradients);
  project_backward(a.n2, hidden, model_.mlp, entries_.up_proj, d_up, d_n2, gradients);
  Floats d_h = std::move(d_y);
  norm_backward(a.h, hidden, entries_.post_norm, d_n2, d_h, gradients);

  Floats d_o(a.o.size(), 0.0F);
  project_backward(a.o, model_.q_width(), hidden, entries_.o_proj, d_h, d_o, gradients);
  RankAttention::Gradients d = attention_.backward(layer_, std::move(d_o));
  const Floats d_q0 =
      rotated_backward(a.q0, model_.q_heads, entries_.q_norm, std::move(d.dq), gradients);
  const Floats d_k0 =
      rotated_backward(a.k0, model_.kv_heads, entries_.k_norm, std::move(d.dk), gradients);
  Floats d_n1(a.n1.size(), 0.0F);
  project_backward(a.n1, hidden, model_.q_width(), entries_.q_proj, d_q0, d_n1, gradients);
  project_backward(a.n1, hidden, model_.kv_width(), entries_.k_proj, d_k0, d_n1, gradients);
  project_backward(a.n1, hidden, model_.kv_width(), entries_.v_proj, d.dv, d_n1, gradients);
  norm_backward(a.x, hidden, entries_.input_norm, d_n1, d_h, gradients);
  return d_h;
}

Floats DenseLayer::project(const Floats& x, int64_t in, int64_t out, size_t entry) const {
  Floats y(rows_ * out);
  linear_forward(rows_, in, out, x.data(), parameters_[entry], y.data());
  return y;
}

void DenseLayer::project_backward(const Floats& x, int64_t in, int64_t out, size_t entry,
                                  const Floats& d_y, Floats& d_x,
                                  ParameterValues& gradients) const {
  linear_backward(rows_, in, out, x.data(), parameters_[entry], d_y.data(), d_x.data(),
                  gradients[entry]);
}

Floats DenseLayer::norm(const Floats& x, int64_t width, size_t entry) const {
  Floats y(x.size());
  rms_norm_forward(std::ssize(x) / width, width, model_.rms_epsilon, x.data(), parameters_[entry],
                   y.data());
  return y;
}

void DenseLayer::norm_backward(const Floats& x, int64_t width, size_t entry, const Floats& d_y,
                               Floats& d_x, ParameterValues& gradients) const {
  rms_norm_backward(std::ssize(x) / width, width, model_.rms_epsilon, x.data(), parameters_[entry],
                    d_y.data(), d_x.data(), gradients[entry]);
}

Floats DenseLayer::rotated(Floats x, int64_t heads, size_t norm_entry, Floats& before) const {
  if (model_.qk_norm) {
    before = std::move(x);
    x = norm(before, model_.head_dim, norm_entry);
  }
  rope_.turn(heads, false, x.data());
  return x;
}

Floats DenseLayer::rotated_backward(const Floats& before, int64_t heads, size_t norm_entry,
                                    Floats d_y, ParameterValues& gradients) const {
  rope_.turn(heads, true, d_y.data());
  if (!model_.qk_norm) {
    return d_y;
  }
  Floats d_x(d_y.size(), 0.0F);
  norm_backward(before, model_.head_dim, norm_entry, d_y, d_x, gradients);
  return d_x;
}

}  // namespace bdlm::cpu
