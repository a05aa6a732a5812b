#pragma once
// What one rank's thread copies and adds to complete an operation, given every rank's call. No
// synchronisation here: thread_group.h sees to it that the payloads stand still.

#include <vector>

#include "reference/parallel/call_shape.h"

namespace bdlm {

/// The stages of an operation. All ranks finish one before any begins the next.
int stages(CallKind kind);

/// True when the rank of `call` touches payloads of `peer` in this operation.
bool touches(const Call& call, int peer);

/// Does `rank`'s part of a stage. `calls` holds one call a rank.
///
/// All-gather, reduce-scatter and exchange have one stage, which fills the rank's own `receive`.
/// All-reduce needs no memory beyond the payloads: in stage 0 rank r sums the r-th slice of all
/// ranks into rank 0's payload, in stage 1 every other rank copies that payload.
void move_stage(const std::vector<Call>& calls, int rank, int stage);

}  // namespace bdlm
