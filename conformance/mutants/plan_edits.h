#pragma once
// Edits of rank plans, of which faults are made.

#include <functional>
#include <string>
#include <vector>

#include "conformance/mutants/mutant.h"
#include "reference/schedule/step.h"

namespace bdlm {

using Bands = std::vector<Band>;
using Plans = std::vector<RankPlan>;

/// A mutant (mutant.h) whose fault is an edit of all ranks' plans.
Mutant plan_mutant(const std::string& name, const std::string& kind, const std::string& what,
                   std::function<void(const PlanSetting&, Plans&)> edit);

/// Calls `edit(plan, step)` for every step of one kind, forward and backward.
template <class Kind, class Edit>
void edit_steps(std::vector<RankPlan>& plans, const Edit& edit) {
  for (RankPlan& plan : plans) {
    for (auto* steps : {&plan.forward, &plan.backward}) {
      for (Step& step : *steps) {
        if (auto* kind = std::get_if<Kind>(&step)) {
          edit(plan, *kind);
        }
      }
    }
  }
}

/// Where a band stands.
struct BandPlace {
  const RankPlan& plan;
  /// Whose keys the band reads.
  const RowSet& buffer;
  /// Whether those are another rank's rows.
  bool received = false;
};

/// Replaces every band of the forward and of the backward by those that `edit(place, band)` returns
/// for it; empty ones are dropped, and so are steps that have none left.
void edit_bands(std::vector<RankPlan>& plans,
                const std::function<std::vector<Band>(const BandPlace&, const Band&)>& edit);

/// The same in the backward only.
void edit_backward_bands(
    std::vector<RankPlan>& plans,
    const std::function<std::vector<Band>(const BandPlace&, const Band&)>& edit);

/// `band` with the keys up to `end` instead of its own end, as far as the buffer has them.
Band with_key_end(const BandPlace& place, Band band, int64_t end);

/// Takes rows out of the halos: rank r receives, attends and returns only those of `keep(r)`.
void restrict_halos(std::vector<RankPlan>& plans, const std::function<IntervalSet(int rank)>& keep);

/// Drops the steps for which `drop` holds, and the waits for what they would have started.
void drop_steps(std::vector<Step>& steps, const std::function<bool(const Step&)>& drop);

/// Moves step `from` of the list to place `to`.
void move_step(std::vector<Step>& steps, size_t from, size_t to);

/// The index of the first step of one kind, or the number of steps.
template <class Kind>
size_t find_step(const std::vector<Step>& steps) {
  size_t i = 0;
  while (i < steps.size() && !std::holds_alternative<Kind>(steps[i])) {
    ++i;
  }
  return i;
}

}  // namespace bdlm
