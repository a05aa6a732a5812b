#pragma once
// The one interpreter of rank programs.

#include <span>

#include "reference/schedule/communicator.h"
#include "reference/schedule/engine.h"
#include "reference/schedule/step.h"

namespace bdlm {

/// Executes `steps` in order. Transfers are started where they stand and completed at their Wait.
/// Throws LogicError when a Wait names no transfer in flight, a token is started twice, or a
/// transfer is never waited for.
void run(std::span<const Step> steps, Engine& engine, Communicator& communicator);

}  // namespace bdlm
