#pragma once
// The one order in which parts of several ranks are summed.

#include <cstdint>
#include <span>

#include "reference/schedule/communicator.h"

namespace bdlm {

/// result[i] = (..((parts[0][i] + parts[1][i]) + parts[2][i]) + ..), i < count, `parts` by rank, at
/// least one. Every transport sums through this function, so that their bits are equal. `result`
/// may be parts[0]; otherwise it overlaps no part.
void rank_order_sum(const ElementType& type, void* result, std::span<void* const> parts,
                    int64_t count);

}  // namespace bdlm
