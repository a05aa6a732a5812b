#pragma once
// A whole training step on ranks that are threads of this process.

#include <algorithm>
#include <optional>

#include "reference/parallel/rank_step.h"
#include "reference/parallel/thread_communicator.h"

namespace bdlm {

/// The step under any decomposition of the case's sequence. All ranks must arrive at the same bits;
/// throws LogicError if they do not.
template <class T>
StepResult<T> run_step(const DenseCase& step_case, const DenseParameters<T>& parameters,
                       const Ownership& ownership, const StepOptions& options = {}) {
  check(step_case);
  std::vector<std::optional<StepOutcome<T>>> outcomes(ownership.ranks);
  StepResult<T> result{T(0), DenseParameters<T>(step_case.config), {}};
  result.logs.resize(ownership.ranks);
  run_ranks(ownership.ranks, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    const LayerPlans plans =
        layer_plans(step_case.config, step_case.example.sequence, ownership, rank);
    outcomes[rank] =
        rank_step<T>(step_case, parameters, plans, ownership.counted[rank], communicator, options);
    result.logs[rank] = communicator.log();
  });
  // NaN equals NaN here: it is a result like any other, and every rank has it.
  const auto same = [](const T& a, const T& b) { return a == b || (a != a && b != b); };
  for (const std::optional<StepOutcome<T>>& outcome : outcomes) {
    const std::vector<T>& first = outcomes[0]->gradients.values();
    const std::vector<T>& own = outcome->gradients.values();
    require<LogicError>(same(outcome->loss, outcomes[0]->loss) &&
                            std::equal(own.begin(), own.end(), first.begin(), same),
                        "ranks disagree about the outcome of a step");
  }
  result.loss = outcomes[0]->loss;
  result.gradients = std::move(outcomes[0]->gradients);
  return result;
}

}  // namespace bdlm
