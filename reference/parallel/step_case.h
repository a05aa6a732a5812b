#pragma once
// What a training step computes, whatever the decomposition.

#include <vector>

#include "reference/model/dense_parameters.h"
#include "reference/objective/loss_term.h"
#include "reference/objective/supervision.h"
#include "reference/schedule/communicator.h"
#include "reference/schedule/step.h"

namespace bdlm {

/// A dense model and one training example.
struct DenseCase {
  DenseConfig config;
  TokenSequence example;
  /// Each view is a pass of its own; losses and gradients of views add up.
  std::vector<View> views;
};

/// Throws InputError where model, tokens and views do not fit together.
void check(const DenseCase& step_case);

struct StepOptions {
  /// Whether a layer's activations are computed again in the backward instead of kept. The result
  /// is the same, bit for bit; every layer communicates three times instead of twice.
  bool checkpointing = false;
  /// Whether attention takes its tiles of keys in descending order: the same function with other
  /// roundings, a measure of how much of a difference is rounding.
  bool reverse_tiles = false;
  /// Query rows and keys of an attention tile; 0 for the default. Tiles affect rounding only.
  int64_t tile = 0;
};

/// The loss and its gradients, summed over all ranks.
template <class T>
struct StepOutcome {
  T loss;
  DenseParameters<T> gradients;
};

/// The same with what each rank's communicator logged.
template <class T>
struct StepResult {
  T loss;
  DenseParameters<T> gradients;
  std::vector<std::vector<LogEntry>> logs;
};

}  // namespace bdlm
