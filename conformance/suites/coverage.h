#pragma once
// T0: does a schedule visit every allowed (query, key) pair exactly once, and is it balanced?

#include <functional>
#include <vector>

#include "conformance/suites/violations.h"
#include "reference/layout/ownership.h"
#include "reference/layout/visibility.h"
#include "reference/schedule/step.h"

namespace bdlm {

struct CoverageReport {
  Violations violations;
  /// Attended pairs by rank, forward. BP's recomputed clean rows count where they are computed.
  std::vector<int64_t> pairs;
  /// The largest over the mean of `pairs`; 1 is perfect.
  double imbalance() const;
};

/// Checks the plans of all ranks as integers: rows are counted once, every pair of every held row
/// is visited once forward and once backward, and data flow (see DataFlow). `plan_of(rank)` is
/// called once for each rank, in order. `ownership` is checked, not trusted.
CoverageReport check_coverage(const Sequence& sequence, const LayerRule& rule,
                              const Ownership& ownership,
                              const std::function<RankPlan(int)>& plan_of);

}  // namespace bdlm
