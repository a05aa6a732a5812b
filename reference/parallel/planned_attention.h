#pragma once
// The attention of a model whose layers run rank programs.

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include "reference/model/attention_layer.h"
#include "reference/model/dense_config.h"
#include "reference/parallel/cpu_engine.h"
#include "reference/schedule/interpreter.h"

namespace bdlm {

/// The rank's program for each layer; layers of one mask share one.
using LayerPlans = std::vector<std::shared_ptr<const RankPlan>>;

/// Runs each layer's plan over an engine and a communicator. All plans hold the same rows.
template <class T>
class PlannedAttention final : public AttentionLayer<T> {
 public:
  PlannedAttention(const DenseConfig& config, LayerPlans plans, Communicator& communicator,
                   const AttentionOptions& options = {}, EngineFactory<T> factory = {})
      : shape_{config.q_heads, config.kv_heads, config.head_dim},
        // Rounded once, to double: every scalar type computes the same function.
        scale_(1 / std::sqrt(static_cast<double>(config.head_dim))),
        plans_(std::move(plans)),
        communicator_(communicator),
        options_(options),
        factory_(std::move(factory)) {
    require<LogicError>(static_cast<int64_t>(plans_.size()) == config.layers, "there are ",
                        plans_.size(), " plans for ", config.layers, " layers");
    for (const auto& plan : plans_) {
      require<LogicError>(plan->rows.segments() == plans_[0]->rows.segments(),
                          "the layers' plans hold different rows");
    }
  }

  void forward(int64_t layer, bool keep, const T* q, const T* k, const T* v, T* o) override {
    const RankPlan& plan = *plans_[layer];
    std::unique_ptr<CpuEngine<T>> engine =
        make_engine<T>(factory_, plan, shape_, T(scale_), options_);
    engine->load(q, k, v);
    run(plan.forward, *engine, communicator_);
    std::copy(engine->output().begin(), engine->output().end(), o);
    if (keep) {
      engines_[layer] = std::move(engine);
    }
  }

  void backward(int64_t layer, const T* d_o, T* dq, T* dk, T* dv) override {
    const auto kept = engines_.extract(layer);
    require<LogicError>(!kept.empty(), "layer ", layer, " has no forward to go back through");
    CpuEngine<T>& engine = *kept.mapped();
    engine.load_gradient(d_o);
    run(plans_[layer]->backward, engine, communicator_);
    std::copy(engine.dq().begin(), engine.dq().end(), dq);
    std::copy(engine.dk().begin(), engine.dk().end(), dk);
    std::copy(engine.dv().begin(), engine.dv().end(), dv);
  }

 private:
  AttentionShape shape_;
  double scale_;
  LayerPlans plans_;
  Communicator& communicator_;
  AttentionOptions options_;
  EngineFactory<T> factory_;
  std::map<int64_t, std::unique_ptr<CpuEngine<T>>> engines_;
};

}  // namespace bdlm
