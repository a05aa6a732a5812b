#pragma once
// Parallel loops over units of work: so many neighbours at a time, always cut at the same places.

#include <algorithm>
#include <cstdint>

#include "reference/base/parallel_for.h"

namespace bdlm::cpu {

/// Units of `size` that cover [0, n).
constexpr int64_t units_of(int64_t n, int64_t size) {
  return (n + size - 1) / size;
}

/// body(unit, begin, end) for each of `units_of(n, size)`, in parallel. Which thread takes a unit
/// does not change what it holds: sums by unit have one order.
template <class Body>
void parallel_units(int64_t n, int64_t size, const Body& body) {
  parallel_for(units_of(n, size),
               [&](int64_t unit, int) { body(unit, unit * size, std::min(n, (unit + 1) * size)); });
}

}  // namespace bdlm::cpu
