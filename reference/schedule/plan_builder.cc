#include "reference/schedule/plan_builder.h"

#include "reference/base/error.h"

namespace bdlm {

PlanBuilder::PlanBuilder(Sequence sequence, Ownership ownership, LayerRule rule)
    : sequence_(std::move(sequence)), ownership_(std::move(ownership)), rule_(rule) {
  require(rule_.window >= 0, "the sliding window is ", rule_.window,
          "; it must be at least 1, or 0 for a full layer");
  ShardMap shards;
  if (ownership_.scheme == Scheme::cp) {
    shards = ownership_.rows;
  } else if (ownership_.scheme == Scheme::csbp) {
    for (const RowSet& rows : ownership_.rows) {
      shards.emplace_back(IntervalSet{}, rows.rows(Stream::clean));
    }
    if (rule_.window > 0) {
      prepare_halos();
    }
  }
  for (const RowSet& shard : shards) {
    padded_rows_ = std::max(padded_rows_, shard.size());
  }
  shards_ = std::make_shared<const ShardMap>(std::move(shards));
}

std::vector<Band> PlanBuilder::bands(const RankPlan& plan, Stream query, Stream key) const {
  std::vector<Band> out;
  for (const Interval& rows : plan.rows.rows(query)) {
    const std::vector<Band> more = visible_bands(sequence_, rule_, query, rows, key);
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

RankPlan PlanBuilder::rank(int rank) const {
  require<LogicError>(rank >= 0 && rank < ranks(), "rank ", rank, " of ", ranks());
  RankPlan plan;
  plan.scheme = name(ownership_.scheme);
  plan.rank = rank;
  plan.ranks = ranks();
  plan.rows = ownership_.rows[rank];
  plan.buffers = {plan.rows};
  switch (ownership_.scheme) {
    case Scheme::monolithic:
    case Scheme::bp:
      build_local(plan);
      break;
    case Scheme::cp:
      build_context_parallel(plan);
      break;
    case Scheme::csbp:
      if (rule_.window > 0) {
        build_csbp_sliding(plan);
      } else {
        build_csbp_full(plan);
      }
      break;
  }
  return plan;
}

std::vector<RankPlan> build_plans(const Sequence& sequence, const Ownership& ownership,
                                  const LayerRule& rule) {
  const PlanBuilder builder(sequence, ownership, rule);
  std::vector<RankPlan> plans;
  for (int r = 0; r < builder.ranks(); ++r) {
    plans.push_back(builder.rank(r));
  }
  return plans;
}

}  // namespace bdlm
