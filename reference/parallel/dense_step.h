#pragma once
// Training steps in double, compiled once: for callers that need no other scalar.

#include "reference/layout/ownership.h"
#include "reference/parallel/step_case.h"
#include "reference/parallel/step_hooks.h"

namespace bdlm {

/// How a case is divided: the ownership under a scheme, its BP prefixes reaching over clean rows
/// that carry a loss.
Ownership divide(const DenseCase& step_case, Scheme scheme, int ranks,
                 BlockAssignment assignment = BlockAssignment::dual_end);

/// The step on `ownership.ranks` threads (run_step.h). Throws InputError on a case that does not
/// fit together.
StepResult<double> dense_step(const DenseCase& step_case, const DenseParameters<double>& parameters,
                              const Ownership& ownership, const StepOptions& options = {});

/// The same, divided as by `divide`.
StepResult<double> dense_step(const DenseCase& step_case, const DenseParameters<double>& parameters,
                              Scheme scheme, int ranks, const StepOptions& options = {});

/// The part of the rank of `communicator`, for instance a process under MPI; every rank calls it.
/// The outcome is that of the whole group (rank_step.h).
StepOutcome<double> dense_rank_step(const DenseCase& step_case,
                                    const DenseParameters<double>& parameters,
                                    const Ownership& ownership, Communicator& communicator,
                                    const StepOptions& options = {});

/// The same over given plans of the rank, one a layer, and with hooks.
StepOutcome<double> dense_rank_step(const DenseCase& step_case,
                                    const DenseParameters<double>& parameters,
                                    const Ownership& ownership,
                                    const std::vector<std::shared_ptr<const RankPlan>>& plans,
                                    Communicator& communicator, const StepOptions& options,
                                    const StepHooks<double>& hooks);

}  // namespace bdlm
