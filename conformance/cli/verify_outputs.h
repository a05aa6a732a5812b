#pragma once
// The files door of `bdlm verify`.

#include "conformance/cli/verify_options.h"

namespace bdlm {

/// Judges a folder of outputs (judge_outputs.h), prints a line for every tensor, writes the
/// reports. Without --golden the vectors are those of golden/v1 in the current folder, or are made
/// anew. Returns the exit status. Throws InputError on options that say nothing about files.
int verify_outputs(const VerifyOptions& options);

}  // namespace bdlm
