#pragma once
// What the suite judges: the distributed code as it is, or with one part of it replaced.

#include <functional>
#include <vector>

#include "reference/layout/ownership.h"
#include "reference/math/exact.h"
#include "reference/parallel/step_hooks.h"
#include "reference/schedule/step.h"

namespace bdlm {

/// What the plans of a layer are built from.
struct PlanSetting {
  const Sequence& sequence;
  const LayerRule& rule;
  const Ownership& ownership;
};

/// The parts that a fault can be planted in; what is empty is right. Only the distributed side of
/// a case runs on them: the monolithic one, the ledger and the bounds stay as they are.
struct Subject {
  /// Changes the plans of all ranks of one layer.
  std::function<void(const PlanSetting&, std::vector<RankPlan>&)> plans;
  EngineFactory<double> engine_f64;
  EngineFactory<Exact> engine_exact;
  /// Changes model, tokens, views and terms of a step, on all ranks alike.
  std::function<void(DenseCase&)> step_case;
  /// Changes one rank's step. Its engine is `engine_f64`, whatever stands here.
  StepHooks<double> step;

  /// Whether anything is replaced that a plan or an attention layer by itself would show.
  bool changes_attention() const {
    return static_cast<bool>(plans) || static_cast<bool>(engine_f64) ||
           static_cast<bool>(engine_exact);
  }
};

/// The plans of all ranks, as the subject has them.
std::vector<RankPlan> plans_of(const Subject& subject, const PlanSetting& setting);

}  // namespace bdlm
