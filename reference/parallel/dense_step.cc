#include "reference/parallel/dense_step.h"

#include <algorithm>

#include "reference/parallel/run_step.h"

namespace bdlm {

Ownership divide(const DenseCase& step_case, Scheme scheme, int ranks, BlockAssignment assignment) {
  OwnershipOptions options;
  options.assignment = assignment;
  options.clean_loss =
      std::any_of(step_case.views.begin(), step_case.views.end(), [](const View& view) {
        return std::any_of(view.terms.begin(), view.terms.end(),
                           [](const LossTerm& term) { return term.stream == Stream::clean; });
      });
  options.rules = step_case.config.rules;
  return divide(step_case.example.sequence, scheme, ranks, options);
}

StepResult<double> dense_step(const DenseCase& step_case, const DenseParameters<double>& parameters,
                              const Ownership& ownership, const StepOptions& options) {
  return run_step<double>(step_case, parameters, ownership, options);
}

StepResult<double> dense_step(const DenseCase& step_case, const DenseParameters<double>& parameters,
                              Scheme scheme, int ranks, const StepOptions& options) {
  return run_step<double>(step_case, parameters, divide(step_case, scheme, ranks), options);
}

StepOutcome<double> dense_rank_step(const DenseCase& step_case,
                                    const DenseParameters<double>& parameters,
                                    const Ownership& ownership, Communicator& communicator,
                                    const StepOptions& options) {
  require(communicator.size() == ownership.ranks, "a step divided over ", ownership.ranks,
          " ranks is run on ", communicator.size());
  return dense_rank_step(
      step_case, parameters, ownership,
      layer_plans(step_case.config, step_case.example.sequence, ownership, communicator.rank()),
      communicator, options, {});
}

StepOutcome<double> dense_rank_step(const DenseCase& step_case,
                                    const DenseParameters<double>& parameters,
                                    const Ownership& ownership, const LayerPlans& plans,
                                    Communicator& communicator, const StepOptions& options,
                                    const StepHooks<double>& hooks) {
  return rank_step<double>(step_case, parameters, plans, ownership.counted[communicator.rank()],
                           communicator, options, hooks);
}

}  // namespace bdlm
