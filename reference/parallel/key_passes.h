#pragma once
// Bands of a plan as row-by-row intervals of storage indices.

#include <span>
#include <vector>

#include "reference/layout/band.h"
#include "reference/layout/row_set.h"

namespace bdlm {

/// Attention of a run of stored rows, each over at most one run of stored keys.
struct KeyPass {
  /// Storage indices of the query rows.
  Interval rows;
  /// (rows.size()) storage indices of the keys that each row sees; some are empty.
  std::vector<Interval> keys;
};

/// The passes that together attend every pair of `bands` once: a row that several bands name, or
/// whose keys lie in several segments, takes part in as many passes. Rows are found in `queries`,
/// keys in `buffer`. Throws LogicError where one is not held.
std::vector<KeyPass> key_passes(std::span<const Band> bands, const RowSet& queries,
                                const RowSet& buffer);

}  // namespace bdlm
