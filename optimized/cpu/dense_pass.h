#pragma once
// A dense transformer's loss and gradients over the rows of one rank.

#include "optimized/cpu/cross_entropy.h"
#include "optimized/cpu/dense_layer.h"

namespace bdlm::cpu {

/// Token and document-relative position of every row, and the terms of the loss: `weight` times the
/// cross-entropy of `label` at a row.
struct PassInput {
  std::vector<int64_t> tokens, positions;  // (R)
  struct Term {
    int64_t row, label;
    double weight;
  };
  std::vector<Term> terms;
};

/// The sum of the terms; its gradients are added to `gradients`. A layer keeps its activations for
/// the backward, or with `checkpointing` its input only: then its forward, attention included, runs
/// again, to the same bits.
double dense_pass(const Model& model, const LogitRule& rule, const ParameterValues& parameters,
                  const PassInput& input, RankAttention& attention, bool checkpointing,
                  ParameterValues& gradients);

}  // namespace bdlm::cpu
