#pragma once
// Where a caller may look into a rank's step, or change it. The suite plants faults here, to see
// that it finds them; none of the hooks is set otherwise.

#include <functional>
#include <memory>
#include <vector>

#include "reference/layout/row_set.h"
#include "reference/model/attention_layer.h"
#include "reference/parallel/engine_factory.h"
#include "reference/parallel/step_case.h"

namespace bdlm {

struct RowInput;
struct RowTerm;

/// One view's pass through the model on one rank.
struct RankPass {
  const DenseCase& step_case;
  size_t view = 0;
  int rank = 0;
  int ranks = 1;
  /// The rows that the rank holds, and those whose loss terms it adds.
  const RowSet& rows;
  const RowSet& counted;
};

template <class T>
struct StepHooks {
  EngineFactory<T> engine;
  /// An attention in the place of the pass's own, which it may use.
  std::function<std::unique_ptr<AttentionLayer<T>>(const RankPass&, AttentionLayer<T>&)> attention;
  /// What the model is about to read, by stored row, and the terms of the loss.
  std::function<void(const RankPass&, std::vector<RowInput>&, std::vector<RowTerm>&)> before;
  /// The rank's own sums after the pass; after the last one they are summed over ranks.
  std::function<void(const RankPass&, StepOutcome<T>&)> after;
};

}  // namespace bdlm
