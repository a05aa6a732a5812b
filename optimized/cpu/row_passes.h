#pragma once
// Bands of a plan as row-by-row intervals of stored keys.

#include <cstdint>
#include <span>
#include <vector>

#include "reference/layout/row_set.h"

namespace bdlm::cpu {

/// Stored query rows [rows.begin, rows.end), each with one interval of stored keys, which may be
/// empty: (rows, 2), as the plug-in interface has it.
struct RowPass {
  Interval rows;
  std::vector<int64_t> intervals;
};

/// Passes that together attend every pair of `bands` once. A row whose keys are not in one run of
/// `buffer` takes part in several. Throws LogicError where a row or key is not held.
std::vector<RowPass> row_passes(std::span<const Band> bands, const RowSet& queries,
                                const RowSet& buffer);

}  // namespace bdlm::cpu
