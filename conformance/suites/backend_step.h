#pragma once
// A training step on a backend: all ranks as threads, each with a context of its own.

#include <string>
#include <vector>

#include "conformance/plugin/backend.h"
#include "conformance/suites/plugin_group.h"
#include "reference/layout/ownership.h"
#include "reference/parallel/step_case.h"

namespace bdlm {

struct BackendStepOptions {
  bool checkpointing = false;
  /// One rank is so late in every operation.
  int late_rank = -1;
  int64_t late_us = 0;
};

/// What the ranks returned.
struct BackendStep {
  /// By rank.
  std::vector<double> loss;
  /// By rank: all parameters' gradients, in the order of the table.
  std::vector<std::vector<double>> gradients;
  std::vector<std::vector<TrafficEntry>> traffic;
};

/// Runs the step entry on every rank. Parameters must be numbers of the contract's `input`. Throws
/// BackendFailure where a rank's entry fails: the error of the lowest rank whose own it is.
BackendStep run_backend_step(const Backend& backend, const DenseCase& step_case,
                             const DenseParameters<double>& parameters, Scheme scheme, int ranks,
                             const BackendStepOptions& options = {});

}  // namespace bdlm
