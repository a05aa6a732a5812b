#pragma once
// The attention of all layers of a rank: every layer runs its plan.

#include <map>
#include <memory>
#include <vector>

#include "optimized/cpu/parameters.h"
#include "optimized/cpu/rank_engine.h"
#include "reference/layout/ownership.h"

namespace bdlm::cpu {

/// A rank's program for each layer; layers of one mask share one.
using LayerPlans = std::vector<std::shared_ptr<const RankPlan>>;
LayerPlans layer_plans(const Model& model, const Sequence& sequence, const Ownership& ownership,
                       int rank);

class RankAttention {
 public:
  /// Keeps references to all three.
  RankAttention(const Model& model, const LayerPlans& plans, Communicator& communicator)
      : model_(model), plans_(plans), communicator_(communicator) {}

  /// o (R, Hq, D) from q (R, Hq, D), k and v (R, Hkv, D). With `keep`, what `backward` needs is
  /// kept until it has run.
  Floats forward(int64_t layer, bool keep, Floats q, Floats k, Floats v);

  struct Gradients {
    Floats dq, dk, dv;
  };
  Gradients backward(int64_t layer, Floats d_o);

 private:
  const Model& model_;
  const LayerPlans& plans_;
  Communicator& communicator_;
  std::map<int64_t, std::unique_ptr<RankEngine>> kept_;
};

}  // namespace bdlm::cpu
