#include "optimized/cpu/rank_attention.h"

#include <algorithm>
#include <cmath>

#include "reference/base/error.h"
#include "reference/schedule/interpreter.h"
#include "reference/schedule/plan_builder.h"

namespace bdlm::cpu {

LayerPlans layer_plans(const Model& model, const Sequence& sequence, const Ownership& ownership,
                       int rank) {
  LayerPlans plans;
  const auto begin = model.rules.begin();
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    const int64_t first = std::find(begin, begin + layer, model.rules[layer]) - begin;
    plans.push_back(first < layer
                        ? plans[first]
                        : std::make_shared<const RankPlan>(
                              PlanBuilder(sequence, ownership, model.rules[layer]).rank(rank)));
  }
  return plans;
}

Floats RankAttention::forward(int64_t layer, bool keep, Floats q, Floats k, Floats v) {
  const RankPlan& plan = *plans_[layer];
  const AttentionShape shape{plan.rows.size(), model_.q_heads, model_.kv_heads, model_.head_dim};
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(model_.head_dim)));
  auto engine = std::make_unique<RankEngine>(plan, shape, scale);
  engine->load(std::move(q), std::move(k), std::move(v));
  run(plan.forward, *engine, communicator_);
  Floats o = engine->output();
  if (keep) {
    kept_[layer] = std::move(engine);
  }
  return o;
}

RankAttention::Gradients RankAttention::backward(int64_t layer, Floats d_o) {
  const auto kept = kept_.extract(layer);
  require<LogicError>(!kept.empty(), "layer ", layer, " has no forward to go back through");
  RankEngine& engine = *kept.mapped();
  engine.load_gradient(std::move(d_o));
  run(plans_[layer]->backward, engine, communicator_);
  return {std::move(engine.dq()), std::move(engine.dk()), std::move(engine.dv())};
}

}  // namespace bdlm::cpu
