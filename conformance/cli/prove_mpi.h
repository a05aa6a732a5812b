#pragma once
// The proof's ranks as processes.

#include <functional>
#include <memory>

#include "conformance/suites/step_judge.h"

namespace bdlm {

/// This process's place among those that mpirun started. In a build without MPI the constructor
/// throws InputError.
class MpiRanks {
 public:
  MpiRanks();
  ~MpiRanks();
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  int rank() const;
  int size() const;

  /// Runs this rank's part of a step; called by all ranks. On rank 0 the logs hold each rank's
  /// bytes sent for attention.
  StepRun run(const StepProblem& problem, const Ownership& ownership);

  /// Runs `body`. An error of the input is printed by the first rank alone, and its status is 2;
  /// any other error, such as one of a file, which is the first
  /// rank's alone, ends all processes.
  int guarded(const std::function<int()>& body);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace bdlm
