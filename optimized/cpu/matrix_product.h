#pragma once
// General products of float matrices.

#include <cstdint>

#include "optimized/cpu/panel_product.h"

namespace bdlm::cpu {

/// c (n, m), contiguous, = or, with `add`, += the product of a (n, k) and b (k, m). A unit of work
/// is a block of c; its sums over k are chains of at most 64 terms and then sums of those, in
/// ascending order, so the bits do not depend on the number of threads.
void matrix_product(int64_t n, int64_t m, int64_t k, Strided a, Strided b, float* c, bool add);

}  // namespace bdlm::cpu
