#pragma once
// One rank's part of a training step: forward, loss, backward, and the sums over ranks.
//
// Every scheme is this code. What differs is in the plans (who holds which rows, what moves) and in
// which of its rows' loss terms a rank counts. Monolithic is one rank that holds everything.

#include <algorithm>
#include <iterator>

#include "reference/layout/ownership.h"
#include "reference/model/dense.h"
#include "reference/parallel/planned_attention.h"
#include "reference/parallel/step_case.h"
#include "reference/parallel/step_hooks.h"
#include "reference/schedule/plan_builder.h"

namespace bdlm {

/// One rank's plan for every layer of the model.
inline LayerPlans layer_plans(const DenseConfig& config, const Sequence& sequence,
                              const Ownership& ownership, int rank) {
  LayerPlans plans;
  const auto begin = config.rules.begin();
  for (int64_t layer = 0; layer < std::ssize(config.rules); ++layer) {
    const int64_t first = std::find(begin, begin + layer, config.rules[layer]) - begin;
    plans.push_back(first < layer
                        ? plans[first]
                        : std::make_shared<const RankPlan>(
                              PlanBuilder(sequence, ownership, config.rules[layer]).rank(rank)));
  }
  return plans;
}

/// Token and position of every stored row.
inline std::vector<RowInput> row_inputs(const RowSet& rows, const TokenSequence& example,
                                        const View& view) {
  std::vector<RowInput> inputs;
  for (const Segment& segment : rows.segments()) {
    const std::vector<int64_t>& tokens =
        segment.stream == Stream::clean ? example.tokens : view.corrupted_tokens;
    for (int64_t row = segment.rows.begin; row < segment.rows.end; ++row) {
      inputs.push_back({tokens[row], example.sequence.position(row)});
    }
  }
  return inputs;
}

/// The loss terms of `counted` rows, by where `rows` stores them.
inline std::vector<RowTerm> row_terms(const RowSet& rows, const RowSet& counted,
                                      const std::vector<LossTerm>& terms) {
  std::vector<RowTerm> out;
  for (const LossTerm& term : terms) {
    if (counted.find(term.stream, term.row) >= 0) {
      const int64_t stored = rows.find(term.stream, term.row);
      require<LogicError>(stored >= 0, "the rank counts the loss of ", name(term.stream), " row ",
                          term.row, ", which it does not hold");
      out.push_back({stored, term.label, term.weight});
    }
  }
  return out;
}

/// The step of the rank of `communicator`; every rank of the group calls it. `counted` are the rows
/// whose loss terms this rank adds: over all ranks each row once. The outcome is that of the whole
/// group, equal on every rank. `hooks` are for tests (step_hooks.h).
template <class T>
StepOutcome<T> rank_step(const DenseCase& step_case, const DenseParameters<T>& parameters,
                         const LayerPlans& plans, const RowSet& counted, Communicator& communicator,
                         const StepOptions& options, const StepHooks<T>& hooks = {}) {
  check(step_case);
  StepOutcome<T> outcome{T(0), DenseParameters<T>(step_case.config)};
  const RowSet& rows = plans.at(0)->rows;
  AttentionOptions attention_options;
  attention_options.reverse_tiles = options.reverse_tiles;
  attention_options.query_tile = attention_options.key_tile = options.tile;
  for (size_t n = 0; n < step_case.views.size(); ++n) {
    const View& view = step_case.views[n];
    const RankPass pass{step_case, n, communicator.rank(), communicator.size(), rows, counted};
    PlannedAttention<T> planned(step_case.config, plans, communicator, attention_options,
                                hooks.engine);
    const auto other = hooks.attention ? hooks.attention(pass, planned) : nullptr;
    AttentionLayer<T>& attention = other ? *other : planned;
    std::vector<RowInput> inputs = row_inputs(rows, step_case.example, view);
    std::vector<RowTerm> terms = row_terms(rows, counted, view.terms);
    if (hooks.before) {
      hooks.before(pass, inputs, terms);
    }
    outcome.loss += dense_loss<T>(step_case.config, parameters, inputs, terms, attention,
                                  options.checkpointing, &outcome.gradients);
    if (hooks.after) {
      hooks.after(pass, outcome);
    }
  }
  std::vector<T>& gradients = outcome.gradients.values();
  communicator.all_reduce(
      {gradients.data(), static_cast<int64_t>(gradients.size()), element_type<T>()}, "parameters");
  communicator.all_reduce({&outcome.loss, 1, element_type<T>()}, "loss");
  return outcome;
}

}  // namespace bdlm
