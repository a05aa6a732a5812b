// CP, the baseline: rows by position, K and V of both streams gathered everywhere.
//
//   forward   1 gather          both streams' K,V -> everyone
//             2 wait 1
//             3 attend          all rows on the gathered keys
//   backward  4 attend_backward step 3's pairs -> dQ, dK,dV for all owners
//             5 reduce_scatter  both streams' dK,dV
//             6 wait 5

#include "reference/schedule/plan_builder.h"
#include "reference/schedule/step_helpers.h"

namespace bdlm {

void PlanBuilder::build_context_parallel(RankPlan& plan) const {
  const IntervalSet whole{{0, sequence_.length()}};
  plan.buffers.emplace_back(whole, whole);
  std::vector<Band> all = bands(plan, Stream::corrupted, Stream::corrupted);
  all = concatenate(std::move(all), bands(plan, Stream::corrupted, Stream::clean));
  all = concatenate(std::move(all), bands(plan, Stream::clean, Stream::clean));

  plan.forward.push_back(Gather{0, 1, shards_, padded_rows_});
  plan.forward.push_back(Wait{0});
  append(plan.forward, Attend{1, 0, false, all});

  append(plan.backward, AttendBackward{1, all});
  plan.backward.push_back(ReduceScatter{1, 1, shards_, padded_rows_});
  plan.backward.push_back(Wait{1});
}

}  // namespace bdlm
