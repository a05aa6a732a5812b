#pragma once
// For tests: a random program of operations, and what it must bring, computed without a
// communicator.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/schedule/communicator.h"

namespace bdlm::testing {

struct ProgramResult {
  /// What each operation brought, as bytes, by operation; messages of an exchange by peer.
  std::vector<std::vector<std::byte>> received;
  std::vector<LogEntry> log;
  friend bool operator==(const ProgramResult&, const ProgramResult&) = default;
};

/// Runs `operations` random operations (all kinds, f64, f32 and i64, counts 0 to 40, several in
/// flight, waited for in another order on each rank). Equal seeds give equal programs and data.
/// With `jitter` the ranks pause at random.
ProgramResult run_program(Communicator& communicator, uint64_t seed, int operations, bool jitter);

/// The result of `rank`, from the definitions: sums in rank order, bytes by their formulas.
ProgramResult expected_result(int rank, int ranks, uint64_t seed, int operations);

}  // namespace bdlm::testing
