#pragma once
// Gradients on their way to the sum over ranks, with every rank's part kept, so that they can be
// added in the order and format of a contract.

#include <vector>

#include "conformance/judge/contract.h"
#include "reference/schedule/communicator.h"

namespace bdlm {

/// One element: the ranks' parts, in rank order once it has been reduced.
using RankParts = std::vector<double>;

/// RankParts on a transport: adding puts parts behind one another. `bytes`: of one part on the
/// wire.
const ElementType* rank_parts_type(Dtype dtype);
/// Doubles that travel as numbers of `dtype`, which they are.
const ElementType* number_type(Dtype dtype);

/// The sum of the ranks' parts, every part and every sum rounded to the contract's `reduce`, in its
/// order; `owner` is where a ring ends.
double reduce(const Contract& contract, const RankParts& parts, int owner);

}  // namespace bdlm
