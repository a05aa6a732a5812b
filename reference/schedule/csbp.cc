// CSBP: corrupted blocks stay whole on their rank; only clean K,V and their gradients move.
//
// Full layer
//   forward   1 gather          clean K,V -> everyone                             (in flight)
//             2 attend          corrupted rows on their own block, local keys     -> state
//             3 wait 1
//             4 attend          all rows on the gathered clean keys, from state
//   backward  5 attend_backward step 4's pairs     -> dQ, clean dK,dV for all owners
//             6 reduce_scatter  clean dK,dV                                       (in flight)
//             7 attend_backward step 2's pairs     -> dQ, corrupted dK,dV
//             8 wait 6
//
// Sliding layer: the same shape, with the halo in place of the gather. A rank's own clean keys are
// attended while the halo travels.

#include <algorithm>

#include "reference/schedule/plan_builder.h"
#include "reference/schedule/step_helpers.h"

namespace bdlm {

void PlanBuilder::build_csbp_full(RankPlan& plan) const {
  plan.buffers.emplace_back(IntervalSet{}, IntervalSet{{0, sequence_.length()}});
  const std::vector<Band> local = bands(plan, Stream::corrupted, Stream::corrupted);
  const std::vector<Band> context = concatenate(bands(plan, Stream::corrupted, Stream::clean),
                                                bands(plan, Stream::clean, Stream::clean));

  plan.forward.push_back(Gather{0, 1, shards_, padded_rows_});
  append(plan.forward, Attend{0, 0, false, local});
  plan.forward.push_back(Wait{0});
  append(plan.forward, Attend{1, 0, true, context});

  append(plan.backward, AttendBackward{1, context});
  plan.backward.push_back(ReduceScatter{1, 1, shards_, padded_rows_});
  append(plan.backward, AttendBackward{0, local});
  plan.backward.push_back(Wait{1});
}

void PlanBuilder::build_csbp_sliding(RankPlan& plan) const {
  const std::vector<Band> context = concatenate(bands(plan, Stream::corrupted, Stream::clean),
                                                bands(plan, Stream::clean, Stream::clean));
  const IntervalSet& own = plan.rows.rows(Stream::clean);
  const std::vector<Band> local =
      concatenate(bands(plan, Stream::corrupted, Stream::corrupted), restrict_keys(context, own));
  const std::vector<Message>& sends = sends_[plan.rank];
  const std::vector<Message>& receives = receives_[plan.rank];
  // Every rank takes part in an exchange, with nothing to move too; there is none if no rank needs
  // one.
  const bool no_halo = std::all_of(receives_.begin(), receives_.end(),
                                   [](const auto& messages) { return messages.empty(); });
  if (no_halo) {
    append(plan.forward, Attend{0, 0, false, local});
    append(plan.backward, AttendBackward{0, local});
    return;
  }
  std::vector<Interval> parts;
  for (const Message& message : receives) {
    const IntervalSet& rows = message.rows.rows(Stream::clean);
    parts.insert(parts.end(), rows.begin(), rows.end());
  }
  const IntervalSet outside = unite(std::move(parts));
  plan.buffers.emplace_back(IntervalSet{}, outside);
  const std::vector<Band> across = restrict_keys(context, outside);

  plan.forward.push_back(Exchange{0, 1, sends, receives});
  append(plan.forward, Attend{0, 0, false, local});
  plan.forward.push_back(Wait{0});
  append(plan.forward, Attend{1, 0, true, across});

  append(plan.backward, AttendBackward{1, across});
  plan.backward.push_back(ExchangeBack{1, 1, receives, sends});
  append(plan.backward, AttendBackward{0, local});
  plan.backward.push_back(Wait{1});
}

void PlanBuilder::prepare_halos() {
  // Clean rows by owner, in position order, so that a halo's owners are found by walking.
  struct Owned {
    Interval rows;
    int rank;
  };
  std::vector<Owned> owned;
  for (int r = 0; r < ranks(); ++r) {
    for (const Interval& part : ownership_.rows[r].rows(Stream::clean)) {
      owned.push_back({part, r});
    }
  }
  std::sort(owned.begin(), owned.end(),
            [](const Owned& a, const Owned& b) { return a.rows.begin < b.rows.begin; });

  sends_.resize(ranks());
  receives_.resize(ranks());
  for (int r = 0; r < ranks(); ++r) {
    std::vector<std::pair<int, Interval>> pieces;  // (owner, rows)
    for (const Interval& part : halo(sequence_, rule_, ownership_.rows[r])) {
      auto it = std::partition_point(owned.begin(), owned.end(),
                                     [&](const Owned& o) { return o.rows.end <= part.begin; });
      for (; it != owned.end() && it->rows.begin < part.end; ++it) {
        pieces.emplace_back(it->rank, intersect(part, it->rows));
      }
    }
    std::stable_sort(pieces.begin(), pieces.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < pieces.size();) {
      const int owner = pieces[i].first;
      std::vector<Interval> from_owner;
      for (; i < pieces.size() && pieces[i].first == owner; ++i) {
        from_owner.push_back(pieces[i].second);
      }
      const RowSet rows(IntervalSet{}, unite(std::move(from_owner)));
      receives_[r].push_back({owner, rows});
      sends_[owner].push_back({r, rows});
    }
  }
}

}  // namespace bdlm
