// Monolithic and BP: a rank holds all that its queries see, so nothing moves.
//
//   forward   attend            all rows on own keys
//   backward  attend_backward   the same pairs

#include "reference/schedule/plan_builder.h"
#include "reference/schedule/step_helpers.h"

namespace bdlm {

void PlanBuilder::build_local(RankPlan& plan) const {
  std::vector<Band> all = bands(plan, Stream::corrupted, Stream::corrupted);
  all = concatenate(std::move(all), bands(plan, Stream::corrupted, Stream::clean));
  all = concatenate(std::move(all), bands(plan, Stream::clean, Stream::clean));
  append(plan.forward, Attend{0, 0, false, all});
  append(plan.backward, AttendBackward{0, all});
}

}  // namespace bdlm
