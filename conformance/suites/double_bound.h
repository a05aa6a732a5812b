#pragma once
// How far two double-precision evaluations of one attention layer may lie apart.

#include "conformance/suites/attention_problem.h"
#include "reference/layout/sequence.h"
#include "reference/layout/visibility.h"

namespace bdlm {

/// A bound for each element of the outputs, by position.
struct DoubleBound {
  ByStream<double> o, lse, dq, dk, dv;
};

/// `u A (16 + 4 S + chain)` with u = 2^-53. A is the sum of the absolute terms that make the
/// element (1 for the LSE), S the largest sum of absolute terms of a score in the problem, chain
/// the longest sum in it: keys of a row, rows and group heads of a key, channels. Evaluated from
/// the dense definition, pair by pair, so it is for small problems.
DoubleBound double_bound(const Sequence& sequence, const LayerRule& rule,
                         const AttentionProblem<double>& problem);

}  // namespace bdlm
