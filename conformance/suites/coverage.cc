#include "conformance/suites/coverage.h"

#include <numeric>

#include "conformance/suites/data_flow.h"
#include "conformance/suites/pair_coverage.h"

namespace bdlm {
namespace {

template <class BandStep>
std::vector<Band> bands_of(const std::vector<Step>& steps) {
  std::vector<Band> out;
  for (const Step& step : steps) {
    if (const auto* attend = std::get_if<BandStep>(&step)) {
      out.insert(out.end(), attend->bands.begin(), attend->bands.end());
    }
  }
  return out;
}

/// Each row of each stream is counted by one rank.
void check_counted(const Sequence& sequence, const Ownership& ownership, Violations& out) {
  for (const Stream stream : {Stream::corrupted, Stream::clean}) {
    std::vector<Interval> all;
    int64_t total = 0;
    for (const RowSet& rows : ownership.counted) {
      all.insert(all.end(), rows.rows(stream).begin(), rows.rows(stream).end());
      total += size(rows.rows(stream));
    }
    if (unite(std::move(all)) != IntervalSet{{0, sequence.length()}} ||
        total != sequence.length()) {
      out.add("the ", name(stream), " rows that ranks count are ", total, ", not each row of [0,",
              sequence.length(), ") once");
    }
  }
}

}  // namespace

double CoverageReport::imbalance() const {
  const int64_t total = std::accumulate(pairs.begin(), pairs.end(), int64_t{0});
  if (total == 0) {
    return 1;
  }
  const int64_t most = *std::max_element(pairs.begin(), pairs.end());
  return static_cast<double>(most) * static_cast<double>(pairs.size()) / static_cast<double>(total);
}

CoverageReport check_coverage(const Sequence& sequence, const LayerRule& rule,
                              const Ownership& ownership,
                              const std::function<RankPlan(int)>& plan_of) {
  CoverageReport report;
  Violations& out = report.violations;
  check_counted(sequence, ownership, out);
  DataFlow flow(out);
  for (int r = 0; r < ownership.ranks; ++r) {
    const RankPlan plan = plan_of(r);
    const std::string rank = join("rank ", r);
    if (plan.rows.segments() != ownership.rows[r].segments()) {
      out.add(rank, ": the plan's rows are not those that the rank holds");
    }
    // Every corrupted row that a rank counts, it computes; under BP clean rows only if they carry a
    // loss, which is the objective's concern.
    for (const Interval& rows : ownership.counted[r].rows(Stream::corrupted)) {
      if (!plan.rows.contains(Stream::corrupted, rows)) {
        out.add(rank, ": counts corrupted rows ", rows, ", which it does not hold");
      }
    }
    const std::vector<Band> forward = bands_of<Attend>(plan.forward);
    check_pairs(sequence, rule, plan.rows, forward, rank + " forward", out);
    check_pairs(sequence, rule, plan.rows, bands_of<AttendBackward>(plan.backward),
                rank + " backward", out);
    flow.follow(plan);
    report.pairs.push_back(pairs(forward));
  }
  flow.finish();
  return report;
}

}  // namespace bdlm
