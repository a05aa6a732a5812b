#pragma once
// T0, first half: do the bands of a rank hold every visible pair of its rows exactly once?

#include <string>
#include <vector>

#include "conformance/suites/violations.h"
#include "reference/layout/row_set.h"
#include "reference/layout/sequence.h"
#include "reference/layout/visibility.h"

namespace bdlm {

/// Checks, for every row of `held` and either key stream, that the intervals which `bands` give it
/// are disjoint and together are `visible(...)`; and that no band names a row that is not held.
///
/// Exact, and much cheaper than a look at every row: between cuts (the ends of bands, blocks and
/// documents, and the rows where a window starts or stops to bite) every end of every interval is
/// either constant or moves by one key a row. Two such ends that agree on the first and on the last
/// row between two cuts agree on all.
void check_pairs(const Sequence& sequence, const LayerRule& rule, const RowSet& held,
                 const std::vector<Band>& bands, const std::string& where, Violations& out);

}  // namespace bdlm
