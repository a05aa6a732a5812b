#pragma once
// Planted faults: right code with one thing wrong, to see that the suite finds it.
//
// Later, when there are tiers that could see them. For the low-precision tiers and the kernels:
// a 16-bit gradient reduction, or a 16-bit partial O, under a contract of 32 bits; bits cut off
// where 16-bit values should be rounded; a log-sum-exp kept in 16 bits; a softmax that overflows at
// large scores. For memory and order of execution: 32-bit offsets; an in-place merge with a race; a
// kernel on another stream than the caller's; mask metadata of the last call; an unordered sum that
// is declared deterministic; a write beyond an output; an input that is written to. For transport:
// a send before its receive, a hang on a zero-length shard, another element type than the log says.

#include <string>
#include <vector>

#include "conformance/suites/subject.h"

namespace bdlm {

struct Mutant {
  /// Words joined by '-'.
  std::string name;
  /// The kind of mistake, for instance "window bound".
  std::string kind;
  /// One sentence: what goes wrong.
  std::string what;
  /// Right code but for this fault.
  Subject subject;
};

/// Faults in the plans: which pairs are visited, what moves, in which order.
std::vector<Mutant> mask_mutants();
std::vector<Mutant> transfer_mutants();
/// Faults in what computes and packs: the same plans, wrong numbers.
std::vector<Mutant> engine_mutants();
/// Faults around attention: terms, labels, weights, positions, sums over ranks.
std::vector<Mutant> step_mutants();

/// All of them, in this order.
std::vector<Mutant> all_mutants();

}  // namespace bdlm
