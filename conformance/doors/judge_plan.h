#pragma once
// The verdict on rank programs of another framework.

#include <vector>

#include "conformance/doors/plan_file.h"
#include "conformance/suites/violations.h"

namespace bdlm {

struct PlanVerdict {
  /// What is wrong: pairs that are missing, doubled or forbidden, rows that nobody or more than one
  /// rank computes, rows that are used before they arrive, gradients that do not return, messages
  /// without their other end, bytes other than declared.
  Violations violations;
  /// Attended pairs of the forward, by rank, and the largest over the mean.
  std::vector<int64_t> pairs;
  double imbalance = 1;
  /// By rank.
  std::vector<SentBytes> sent;
  /// Clean rows beyond one copy of each, as block parallelism recomputes them.
  int64_t replicated_clean_rows = 0;
};

/// T0 (coverage.h) over the programs, and what only a foreign file can get wrong: corrupted rows of
/// several ranks, or of none.
PlanVerdict judge_plan(const PlanFile& file);

}  // namespace bdlm
