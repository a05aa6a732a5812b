#pragma once
// The model of a proof: small by default, or a known one with some dimensions changed.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "reference/model/dense_config.h"

namespace bdlm {

/// What the command line says of the model; what it leaves open comes from `name`, or from the
/// small default.
struct ModelOptions {
  std::string name;
  std::optional<int64_t> layers, hidden, q_heads, kv_heads, head_dim, mlp, vocab, window;
  std::string clean;
};

void add_model_options(CLI::App& command, ModelOptions& options);

/// Throws InputError for a model that is not of the dense family, or dimensions that do not fit.
DenseConfig make_config(const ModelOptions& options);

/// Throws InputError when the step of `views` views would not fit into the memory that is free now.
/// `processes` tells whether each rank has weights of its own.
void check_memory(const DenseConfig& config, int64_t length, int ranks, int views, bool processes);

}  // namespace bdlm
