#pragma once
// A computing step of a rank program as calls of a backend's attention.

#include <array>
#include <span>
#include <vector>

#include "reference/layout/band.h"
#include "reference/layout/row_set.h"

namespace bdlm {

/// Keys of one stream that a call attends to.
struct PlanKeys {
  /// All rows of that stream in the buffer, ascending.
  RowSet rows;
  /// (call rows) of stored keys.
  std::vector<Interval> intervals;
};

/// One call: for each row at most one interval of either stream's stored keys.
struct PlanCall {
  RowSet rows;
  /// One or two, or none where no row sees anything.
  std::vector<PlanKeys> keys;
};

/// The rows that some band names.
RowSet rows_of(std::span<const Band> bands);

/// The rows of both.
RowSet unite(const RowSet& a, const RowSet& b);
/// The rows of `a` that are not in `b`.
RowSet subtract(const RowSet& a, const RowSet& b);

/// The calls that together attend every pair of `bands` whose row is in `rows` once: one, unless a
/// row's keys lie apart in storage. Every call names all of `rows`. Throws LogicError where a key
/// is not held by `buffer`, or is named twice.
std::vector<PlanCall> plan_calls(std::span<const Band> bands, const RowSet& rows,
                                 const RowSet& buffer);

}  // namespace bdlm
