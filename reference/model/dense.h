#pragma once
// A dense transformer's loss and its gradients, over any set of rows.
//
// Only attention mixes rows; where its keys come from is the AttentionLayer's business. So the same
// code is the whole model on one rank and a rank's share of it on many.

#include <span>
#include <vector>

#include "reference/math/cross_entropy.h"
#include "reference/model/dense_layer.h"

namespace bdlm {

/// What a row reads: its token, and its position in its document.
struct RowInput {
  int64_t token = 0;
  int64_t position = 0;
};

/// `weight` times the cross-entropy of `label` under the logits of row `row` of the inputs.
struct RowTerm {
  int64_t row = 0;
  int64_t label = 0;
  double weight = 0;
};

/// The final norm, the head and the cross-entropy: the sum of the terms, from the last layer's
/// output x (R, hidden). With `gradients`, adds to them and puts the gradient of x into `d_x`. Only
/// rows that have a term are read.
template <class T>
T head_loss(const DenseConfig& config, const DenseParameters<T>& parameters,
            std::span<const RowTerm> terms, const std::vector<T>& x, std::vector<T>& d_x,
            DenseParameters<T>* gradients) {
  const int64_t hidden = config.hidden;
  const int64_t count = static_cast<int64_t>(terms.size());
  const ParameterTable& table = parameters.table();
  std::vector<T> last(count * hidden);  // (terms, hidden)
  std::vector<int64_t> labels(count);
  std::vector<T> weights(count);
  for (int64_t i = 0; i < count; ++i) {
    std::copy_n(x.data() + terms[i].row * hidden, hidden, last.data() + i * hidden);
    labels[i] = terms[i].label;
    weights[i] = T(terms[i].weight);
  }
  std::vector<T> n(last.size(), T(0));
  rms_norm_forward<T>(count, hidden, config.rms_eps, last.data(), parameters[table.final_norm],
                      n.data());
  const CrossEntropyShape shape{count, hidden, config.vocab};
  CrossEntropyOptions options;
  options.softcap = config.softcap;
  options.excluded = config.excluded_logit;
  const T* head = parameters[table.head];
  const T total = cross_entropy_forward<T>(shape, n.data(), head, labels, weights, options);
  d_x.assign(x.size(), T(0));
  if (gradients == nullptr) {
    return total;
  }
  std::vector<T> d_n(n.size(), T(0));
  cross_entropy_backward<T>(shape, n.data(), head, labels, weights, T(1), d_n.data(),
                            (*gradients)[table.head], options);
  std::vector<T> d_last(n.size(), T(0));
  rms_norm_backward<T>(count, hidden, config.rms_eps, last.data(), parameters[table.final_norm],
                       d_n.data(), d_last.data(), (*gradients)[table.final_norm]);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < hidden; ++c) {
      d_x[terms[i].row * hidden + c] += d_last[i * hidden + c];
    }
  }
  return total;
}

/// The sum of the terms, and its gradients, which are added to `gradients` unless that is null. A
/// layer keeps its activations for the backward, or with `checkpointing` its input only: then its
/// forward, attention included, runs again, to the same bits.
template <class T>
T dense_loss(const DenseConfig& config, const DenseParameters<T>& parameters,
             std::span<const RowInput> rows, std::span<const RowTerm> terms,
             AttentionLayer<T>& attention, bool checkpointing, DenseParameters<T>* gradients) {
  const int64_t hidden = config.hidden;
  const size_t embedding = parameters.table().embedding;
  std::vector<int64_t> positions;
  std::vector<T> x(rows.size() * hidden);  // (R, hidden)
  for (size_t r = 0; r < rows.size(); ++r) {
    std::copy_n(parameters[embedding] + rows[r].token * hidden, hidden, x.data() + r * hidden);
    positions.push_back(rows[r].position);
  }

  const bool keep = gradients != nullptr && !checkpointing;
  std::vector<LayerActivations<T>> kept(config.layers);
  for (int64_t n = 0; n < config.layers; ++n) {
    DenseLayer<T> layer(config, parameters, n, positions, attention);
    LayerActivations<T> activations;
    activations.x = std::move(x);
    x = layer.forward(keep, activations);
    if (keep) {
      kept[n] = std::move(activations);
    } else {
      kept[n].x = std::move(activations.x);
    }
  }

  std::vector<T> d_x;
  const T loss = head_loss<T>(config, parameters, terms, x, d_x, gradients);
  if (gradients == nullptr) {
    return loss;
  }
  for (int64_t n = config.layers - 1; n >= 0; --n) {
    DenseLayer<T> layer(config, parameters, n, positions, attention);
    if (checkpointing) {
      layer.forward(true, kept[n]);
    }
    d_x = layer.backward(kept[n], d_x, *gradients);
    kept[n] = {};
  }
  for (size_t r = 0; r < rows.size(); ++r) {
    T* row = (*gradients)[embedding] + rows[r].token * hidden;
    for (int64_t c = 0; c < hidden; ++c) {
      row[c] += d_x[r * hidden + c];
    }
  }
  return loss;
}

}  // namespace bdlm
