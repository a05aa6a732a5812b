// Faults in who holds, sends and adds what, and in which order.

#include <algorithm>

#include "conformance/mutants/mutant.h"
#include "conformance/mutants/plan_edits.h"
#include "reference/schedule/plan_builder.h"

namespace bdlm {
namespace {

/// The same, for a fault that each rank's plan has by itself.
Mutant each_rank(const std::string& name, const std::string& kind, const std::string& what,
                 void (*edit)(RankPlan&)) {
  return plan_mutant(name, kind, what, [edit](const PlanSetting&, Plans& plans) {
    std::for_each(plans.begin(), plans.end(), edit);
  });
}

/// Gives every collective other shards: `edit(shards, padded rows)`.
template <class Edit>
auto other_shards(const Edit& edit) {
  return [edit](const PlanSetting&, Plans& plans) {
    const auto change = [&](const RankPlan& plan, auto& step) {
      ShardMap shards = *step.shards;
      edit(plan, shards, step.padded_rows);
      step.shards = std::make_shared<const ShardMap>(std::move(shards));
    };
    edit_steps<Gather>(plans, change);
    edit_steps<ReduceScatter>(plans, change);
  };
}

/// Exchanges the second parts of the first two shards.
void swap_zigzag_chunks(const RankPlan&, ShardMap& shards, int64_t& padded_rows) {
  if (shards.size() < 2) {
    return;
  }
  const IntervalSet& a = shards[0].rows(Stream::clean);
  const IntervalSet& b = shards[1].rows(Stream::clean);
  if (a.empty() || b.empty()) {
    return;
  }
  const RowSet first(shards[0].rows(Stream::corrupted), unite({a.front(), b.back()}));
  shards[1] = RowSet(shards[1].rows(Stream::corrupted), unite({b.front(), a.back()}));
  shards[0] = first;
  padded_rows = std::max({padded_rows, shards[0].size(), shards[1].size()});
}

/// On all ranks but the first: a rank that takes the shards to come in another order.
void reverse_owners(const RankPlan& plan, ShardMap& shards, int64_t&) {
  if (plan.rank > 0) {
    std::reverse(shards.begin(), shards.end());
  }
}

/// Shards as long as the shortest: the rows beyond are in none.
void drop_uneven_rows(const RankPlan&, ShardMap& shards, int64_t& padded_rows) {
  for (const RowSet& shard : shards) {
    padded_rows = std::min(padded_rows, shard.size());
  }
  for (RowSet& shard : shards) {
    IntervalSet clean = shard.rows(Stream::clean);
    int64_t extra = shard.size() - padded_rows;
    while (extra > 0 && !clean.empty()) {
      const int64_t cut = std::min(extra, clean.back().size());
      clean.back().end -= cut;
      extra -= cut;
      clean = unite(clean);
    }
    shard = RowSet(shard.rows(Stream::corrupted), clean);
  }
}

/// Nobody attends what the last rank owns, as a ring that ends one step early.
void drop_last_shard(const PlanSetting&, Plans& plans) {
  if (plans.size() < 2) {
    return;
  }
  const RowSet last = plans.back().rows;
  edit_bands(plans, [&](const BandPlace& place, const Band& band) -> Bands {
    if (!place.received || place.plan.rank + 1 == place.plan.ranks) {
      return {band};
    }
    return restrict_keys({band}, subtract({band.keys}, last.rows(band.key_stream)));
  });
}

void drop_last_rank(const PlanSetting&, Plans& plans) {
  edit_bands(plans, [](const BandPlace& place, const Band& band) -> Bands {
    return place.plan.rank + 1 == place.plan.ranks ? Bands{} : Bands{band};
  });
}

void attend_twice(RankPlan& plan) {
  const auto repeat = [](std::vector<Step>& steps, size_t at) {
    if (at < steps.size()) {
      Step again = steps[at];
      if (auto* attend = std::get_if<Attend>(&again)) {
        attend->from_state = true;
      }
      steps.push_back(std::move(again));
    }
  };
  repeat(plan.forward, find_step<Attend>(plan.forward));
  // The first to run forward is the last to run backward.
  size_t last = plan.backward.size();
  for (size_t i = 0; i < plan.backward.size(); ++i) {
    last = std::holds_alternative<AttendBackward>(plan.backward[i]) ? i : last;
  }
  if (last < plan.backward.size()) {
    plan.backward.insert(plan.backward.begin() + static_cast<std::ptrdiff_t>(last),
                         plan.backward[last]);
  }
}

void wait_last(RankPlan& plan) {
  const size_t wait = find_step<Wait>(plan.forward);
  if (wait < plan.forward.size()) {
    move_step(plan.forward, wait, plan.forward.size() - 1);
  }
}

bool returns_gradients(const Step& step) {
  return std::holds_alternative<ReduceScatter>(step) || std::holds_alternative<ExchangeBack>(step);
}

void return_nothing(RankPlan& plan) {
  drop_steps(plan.backward, returns_gradients);
}

void return_first(RankPlan& plan) {
  const auto at = std::find_if(plan.backward.begin(), plan.backward.end(), returns_gradients);
  if (at != plan.backward.end()) {
    move_step(plan.backward, at - plan.backward.begin(), 0);
  }
}

void never_wait_backward(RankPlan& plan) {
  std::erase_if(plan.backward, [](const Step& step) { return std::holds_alternative<Wait>(step); });
}

/// Every Attend takes its rows to be new.
void forget_states(const PlanSetting&, Plans& plans) {
  edit_steps<Attend>(plans, [](const RankPlan&, Attend& step) { step.from_state = false; });
}

/// The first Attend goes to a state of its own, which nothing merges.
void lose_a_state(RankPlan& plan) {
  const size_t first = find_step<Attend>(plan.forward);
  if (first < plan.forward.size()) {
    plan.states = 2;
    std::get<Attend>(plan.forward[first]).state = 1;
  }
}

void skip_exchange_on_last_rank(const PlanSetting&, Plans& plans) {
  RankPlan& last = plans.back();
  drop_steps(last.forward, [](const Step& s) { return std::holds_alternative<Exchange>(s); });
  drop_steps(last.backward, [](const Step& s) { return std::holds_alternative<ExchangeBack>(s); });
}

/// The two ends of a rank's halo come from each other's owner.
void cross_peers(RankPlan& plan) {
  for (Step& step : plan.forward) {
    if (auto* exchange = std::get_if<Exchange>(&step); exchange && exchange->receives.size() > 1) {
      std::swap(exchange->receives[0].rows, exchange->receives[1].rows);
    }
  }
}

void shorter_halo(const PlanSetting& s, Plans& plans) {
  if (s.rule.window > 1) {
    restrict_halos(plans, [&](int rank) {
      return halo(s.sequence, {s.rule.clean, s.rule.window - 1}, s.ownership.rows[rank]);
    });
  }
}

/// Block-causal rows see the end of their block, which may lie behind the rank's chunk.
void no_right_halo(const PlanSetting& s, Plans& plans) {
  if (s.rule.window > 0) {
    restrict_halos(plans, [&](int rank) {
      return halo(s.sequence, {CleanRule::token_causal, s.rule.window}, s.ownership.rows[rank]);
    });
  }
}

}  // namespace

std::vector<Mutant> transfer_mutants() {
  return {
      plan_mutant("shard-dropped", "ownership",
                  "no other rank attends the keys of the last rank's shard", drop_last_shard),
      plan_mutant("rank-dropped", "ownership", "the last rank attends nothing", drop_last_rank),
      plan_mutant("zigzag-chunks-swapped", "ownership",
                  "the gather takes the second chunks of ranks 0 and 1 for each other's",
                  other_shards(swap_zigzag_chunks)),
      plan_mutant("uneven-rows-dropped", "ownership",
                  "shards longer than the shortest lose their last rows",
                  other_shards(drop_uneven_rows)),
      plan_mutant("owner-order-wrong", "gather order",
                  "ranks take gathered shards to come from the last rank to the first",
                  other_shards(reverse_owners)),
      each_rank("local-keys-counted-twice", "coverage",
                "the keys that a rank attends first are attended again at the end", attend_twice),
      each_rank("attend-before-wait", "order",
                "gathered keys are attended before the transfer is complete", wait_last),
      each_rank("gradient-never-returned", "order",
                "gradients of other ranks' keys stay where they were computed", return_nothing),
      each_rank("gradient-returned-early", "order",
                "gradients of other ranks' keys are sent before they have been computed",
                return_first),
      each_rank("gradient-wait-missing", "order",
                "the backward ends while its transfer is in flight", never_wait_backward),
      plan_mutant("state-forgotten", "order",
                  "the gathered keys start a row's state afresh though it holds the local keys",
                  forget_states),
      each_rank("state-never-merged", "merge",
                "the state of the keys attended first is not merged into the output", lose_a_state),
      plan_mutant("rank-skips-the-exchange", "transport",
                  "the last rank does not enter the exchange that its peers wait in",
                  skip_exchange_on_last_rank),
      each_rank("halo-peers-crossed", "halo",
                "the two sides of a halo are expected from each other's owner", cross_peers),
      plan_mutant("halo-one-row-short", "halo", "a window of w gets a halo of w - 2 rows",
                  shorter_halo),
      plan_mutant("right-halo-missing", "halo",
                  "the rest of a block that ends behind the rank's chunk is not fetched",
                  no_right_halo),
  };
}

}  // namespace bdlm
