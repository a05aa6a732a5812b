#pragma once
// Plans as files: those of other frameworks judged, our own written.

#include <CLI/CLI.hpp>
#include <string>

#include "reference/layout/ownership.h"

namespace bdlm {

/// Registers `bdlm plan verify FILE.json` under the plan command.
void add_plan_verify(CLI::App& plan_command, int& status);

/// Writes the rank programs of one layer (plan_file.h).
void dump_plan(const std::string& path, const Sequence& sequence, const LayerRule& rule,
               const Ownership& ownership, int64_t kv_row_bytes, int64_t gradient_row_bytes);

}  // namespace bdlm
