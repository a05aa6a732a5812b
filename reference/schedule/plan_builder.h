#pragma once
// Writes the rank programs of one attention layer.

#include <memory>
#include <vector>

#include "reference/layout/ownership.h"
#include "reference/layout/sequence.h"
#include "reference/layout/visibility.h"
#include "reference/schedule/step.h"

namespace bdlm {

/// Builds the plan of any rank for one (decomposition, mask). What all ranks share, shard maps and
/// halos, is computed once. Keeps copies of what it is given.
class PlanBuilder {
 public:
  PlanBuilder(Sequence sequence, Ownership ownership, LayerRule rule);

  RankPlan rank(int rank) const;
  int ranks() const { return ownership_.ranks; }

 private:
  // One scheme a file: local.cc (monolithic, BP), context_parallel.cc, csbp.cc.
  void build_local(RankPlan& plan) const;
  void build_context_parallel(RankPlan& plan) const;
  void build_csbp_full(RankPlan& plan) const;
  void build_csbp_sliding(RankPlan& plan) const;

  /// All pairs of the rank's query rows with keys of `stream`.
  std::vector<Band> bands(const RankPlan& plan, Stream query, Stream key) const;
  void prepare_halos();

  Sequence sequence_;
  Ownership ownership_;
  LayerRule rule_;
  /// What each rank contributes to the gather, and the largest contribution.
  std::shared_ptr<const ShardMap> shards_;
  int64_t padded_rows_ = 0;
  /// Under CSBP with a window: by rank, the messages of its halo exchange.
  std::vector<std::vector<Message>> sends_, receives_;
};

/// The plans of all ranks.
std::vector<RankPlan> build_plans(const Sequence& sequence, const Ownership& ownership,
                                  const LayerRule& rule);

}  // namespace bdlm
