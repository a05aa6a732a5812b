#pragma once
// One attention layer over both streams on a backend, under a scheme.

#include <string>
#include <vector>

#include "conformance/judge/attention_arrays.h"
#include "conformance/plugin/calls.h"
#include "conformance/suites/attention_data.h"
#include "conformance/suites/layout_case.h"
#include "reference/schedule/communicator.h"
#include "reference/schedule/step.h"

namespace bdlm {

struct BackendOutcome {
  /// Rows that no rank holds have O = 0, LSE = -inf and no gradients.
  AttentionOutputs outputs;
  /// By rank.
  std::vector<std::vector<LogEntry>> logs;
};

/// Runs the plans with ranks as threads, whose calls of the backend come one at a time; forward
/// alone where the problem has no d_o. No two ranks may hold the same row: where they do (BP), run
/// one rank's plan at a time (`alone`). Throws BackendFailure where a call fails.
BackendOutcome run_on_backend(const Backend& backend, const Sequence& sequence,
                              const LayerRule& rule, const std::vector<RankPlan>& plans,
                              const AttentionProblem<double>& problem,
                              const CallOptions& options = {});

/// The groups of plans that are run and judged together: all of a scheme, or under BP each rank by
/// itself.
std::vector<std::vector<RankPlan>> groups_of(const LayoutCase& layout);

/// Random data (attention_data.h) as numbers of the contract's `input`.
AttentionProblem<double> backend_data(const AttentionShape& shape, int64_t length, DataKind kind,
                                      uint64_t seed, const Contract& contract);
/// Rounds all tensors to the format.
void round_inputs(AttentionProblem<double>& problem, Dtype dtype);

/// Every tensor zero, `scale` 1/sqrt(D).
AttentionProblem<double> zero_problem(const AttentionShape& shape, int64_t length);

}  // namespace bdlm
