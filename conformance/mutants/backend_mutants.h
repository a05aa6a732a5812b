#pragma once
// Planted faults behind the plug-in interface: backends with one thing wrong.

#include <functional>
#include <string>
#include <vector>

#include "conformance/mutants/plain_backend.h"

namespace bdlm {

struct BackendMutant {
  /// Words joined by '-'.
  std::string name;
  /// The kind of mistake, for instance "window bound".
  std::string kind;
  /// One sentence: what goes wrong.
  std::string what;
  /// The tier that has to kill it, and a glob over the ids of that tier's cases that are enough.
  std::string tier;
  std::string cases = "*";
  /// Makes it around a right backend on the host, or as one of its own.
  std::function<const bdlm_backend&(const bdlm_backend& right)> make;
};

/// Faults in what attention computes: masks, heads, weights, gradients, formats.
std::vector<BackendMutant> attention_backend_mutants();
/// Faults in merges and cross-entropy.
std::vector<BackendMutant> merge_backend_mutants();
/// Faults around a right backend: memory, order, streams, scale, single elements.
std::vector<BackendMutant> wrapped_backend_mutants();
/// Faults around a right backend's training step.
std::vector<BackendMutant> step_backend_mutants();

/// All of them, in this order.
std::vector<BackendMutant> backend_mutants();

}  // namespace bdlm
