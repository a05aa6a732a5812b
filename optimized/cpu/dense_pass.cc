#include "optimized/cpu/dense_pass.h"

#include <algorithm>
#include <vector>

namespace bdlm::cpu {
namespace {

/// The final norm, the head and the cross-entropy. Adds to `gradients` and puts the gradient of x
/// (R, hidden) into `d_x`. Only rows that have a term are read.
double head_pass(const Model& model, const LogitRule& rule, const ParameterValues& parameters,
                 const std::vector<PassInput::Term>& terms, const Floats& x, Floats& d_x,
                 ParameterValues& gradients) {
  const int64_t hidden = model.hidden;
  const auto count = std::ssize(terms);
  const ParameterList& list = parameters.list();
  d_x.assign(x.size(), 0.0F);
  if (count == 0) {
    return 0;
  }
  Floats last(count * hidden);  // (terms, hidden)
  std::vector<int64_t> labels(count);
  Floats weights(count);
  for (int64_t i = 0; i < count; ++i) {
    std::copy_n(x.data() + terms[i].row * hidden, hidden, last.data() + i * hidden);
    labels[i] = terms[i].label;
    weights[i] = static_cast<float>(terms[i].weight);
  }
  Floats n(last.size());
  rms_norm_forward(count, hidden, model.rms_epsilon, last.data(), parameters[list.final_norm],
                   n.data());
  Floats losses(count);
  Floats d_n(n.size());
  CrossEntropyProblem problem;
  problem.hidden = TensorView(n.data(), {count, hidden});
  // Views are of memory that may be written to; this one is only read.
  problem.head = TensorView(const_cast<float*>(parameters[list.head]), {model.vocab, hidden});
  problem.labels = TensorView(labels.data(), count);
  problem.row_weights = TensorView(weights.data(), {count});
  problem.rule = rule;
  problem.row_loss = TensorView(losses.data(), {count});
  problem.d_hidden = TensorView(d_n.data(), {count, hidden});
  problem.d_head = TensorView(gradients[list.head], {model.vocab, hidden});
  check(problem);
  cross_entropy(problem);
  Floats d_last(n.size(), 0.0F);
  rms_norm_backward(count, hidden, model.rms_epsilon, last.data(), parameters[list.final_norm],
                    d_n.data(), d_last.data(), gradients[list.final_norm]);
  double total = 0;
  for (int64_t i = 0; i < count; ++i) {
    total += losses[i];
    for (int64_t c = 0; c < hidden; ++c) {
      d_x[terms[i].row * hidden + c] += d_last[i * hidden + c];
    }
  }
  return total;
}

}  // namespace

double dense_pass(const Model& model, const LogitRule& rule, const ParameterValues& parameters,
                  const PassInput& input, RankAttention& attention, bool checkpointing,
                  ParameterValues& gradients) {
  const int64_t hidden = model.hidden;
  const auto rows = std::ssize(input.tokens);
  const size_t embedding = parameters.list().embedding;
  const Rope rope(model.head_dim, model.rope_theta, input.positions);
  Floats x(rows * hidden);
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(parameters[embedding] + input.tokens[r] * hidden, hidden, x.data() + r * hidden);
  }
  std::vector<Activations> kept(model.layers);
  for (int64_t n = 0; n < model.layers; ++n) {
    DenseLayer layer(model, parameters, n, rows, rope, attention);
    Activations activations;
    activations.x = std::move(x);
    x = layer.forward(!checkpointing, activations);
    if (checkpointing) {
      kept[n].x = std::move(activations.x);
    } else {
      kept[n] = std::move(activations);
    }
  }
  Floats d_x;
  const double loss = head_pass(model, rule, parameters, input.terms, x, d_x, gradients);
  for (int64_t n = model.layers - 1; n >= 0; --n) {
    DenseLayer layer(model, parameters, n, rows, rope, attention);
    if (checkpointing) {
      layer.forward(true, kept[n]);
    }
    d_x = layer.backward(kept[n], std::move(d_x), gradients);
    kept[n] = {};
  }
  for (int64_t r = 0; r < rows; ++r) {
    float* row = gradients[embedding] + input.tokens[r] * hidden;
    for (int64_t c = 0; c < hidden; ++c) {
      row[c] += d_x[r * hidden + c];
    }
  }
  return loss;
}

}  // namespace bdlm::cpu
