#pragma once
// The training step of one rank.

#include "conformance/plugin/bdlm_plugin.h"
#include "optimized/cpu/attention_problem.h"

namespace bdlm::cpu {

/// The plug-in's entry (bdlm_step_args). Rows are divided as the reference divides them, blocks
/// dual-end; every layer runs a program of reference/schedule. Everything is checked before
/// anything is sent; throws InputError, and CommunicationError where a peer is lost.
void step(const bdlm_step_args& args, const Formats& formats);

}  // namespace bdlm::cpu
