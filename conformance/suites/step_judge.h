#pragma once
// A whole training step under a scheme, against the monolithic one.

#include <functional>
#include <string>
#include <vector>

#include "conformance/report/report.h"
#include "conformance/suites/subject.h"
#include "reference/layout/ownership.h"
#include "reference/parallel/step_case.h"

namespace bdlm {

/// A training step and how it is run.
struct StepProblem {
  DenseCase dense;
  DenseParameters<double> parameters;
  /// Clean rows carry loss terms.
  bool clean_loss = false;
  StepOptions options;
};

/// The monolithic step, and how far another order of keys moves it.
struct StepBaseline {
  StepOutcome<double> one;
  /// By tensor of the parameter table: the largest difference that is only rounding.
  std::vector<double> tolerance;
  double loss_tolerance = 0;
};

/// Runs the step twice on one rank, the second time with tiles of keys in another order. A
/// tolerance is the larger of limits::step_relative times the tensor's largest value and
/// limits::step_reordered times the difference of the two.
StepBaseline make_baseline(const StepProblem& problem);

/// What each rank's step ran and logged.
struct StepRun {
  StepOutcome<double> outcome;
  std::vector<std::vector<LogEntry>> logs;
};

/// Runs a scheme with ranks as threads.
StepRun run_scheme(const StepProblem& problem, const Ownership& ownership,
                   const Subject& subject = {});

/// Attention bytes of each rank of the step, from the ledger.
std::vector<int64_t> step_ledger_bytes(const StepProblem& problem, const Ownership& ownership);

/// How a run compares with the baseline.
struct StepVerdict {
  double loss = 0;
  double loss_difference = 0;
  /// The largest ratio of a difference to its tolerance, loss included, and whose it is.
  double worst = 0;
  std::string worst_tensor;
  bool nonfinite = false;
  /// Of the tensors: the largest difference over the tensor's largest value.
  double worst_relative = 0;
  /// "" where counted attention bytes equal the ledger; else what differs.
  std::string bytes_differ;
  int64_t bytes = 0;
};

StepVerdict compare(const StepProblem& problem, const Ownership& ownership,
                    const StepBaseline& baseline, const StepRun& run);

/// The verdict as a case's result.
CaseResult case_result(const StepVerdict& verdict);

}  // namespace bdlm
