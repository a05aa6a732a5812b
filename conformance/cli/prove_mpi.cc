#include "conformance/cli/prove_mpi.h"

#include "reference/base/error.h"

#ifdef BDLM_HAVE_MPI

#include <iostream>

#include "conformance/cli/command.h"
#include "reference/parallel/dense_step.h"
#include "reference/parallel/mpi_communicator.h"
#include "reference/parallel/mpi_session.h"

namespace bdlm {

class MpiRanks::State {
 public:
  // Rank 0 computes the monolithic steps and the exact cases while the others wait.
  State() : communicator(MPI_COMM_WORLD, {.time_limit = std::chrono::minutes(30)}) {}

  MpiSession session;
  MpiCommunicator communicator;
};

MpiRanks::MpiRanks() : state_(std::make_unique<State>()) {}
MpiRanks::~MpiRanks() = default;
int MpiRanks::rank() const {
  return state_->communicator.rank();
}
int MpiRanks::size() const {
  return state_->communicator.size();
}

StepRun MpiRanks::run(const StepProblem& problem, const Ownership& ownership) {
  MpiCommunicator& communicator = state_->communicator;
  communicator.clear_log();
  StepRun run{
      dense_rank_step(problem.dense, problem.parameters, ownership, communicator, problem.options),
      {}};
  int64_t sent = communicator.bytes_sent("attention");
  std::vector<int64_t> all(size());
  require_mpi(MPI_Gather(&sent, 1, MPI_INT64_T, all.data(), 1, MPI_INT64_T, 0, MPI_COMM_WORLD),
              "gathering byte counts");
  for (const int64_t bytes : all) {
    run.logs.push_back({{Operation::all_gather, bytes, -1, "attention"}});
  }
  return run;
}

int MpiRanks::guarded(const std::function<int()>& body) {
  try {
    return body();
  } catch (const InputError& error) {
    print_error(error.what());
    return 2;
  } catch (const FileError& error) {
    // The others do not know: files are rank 0's.
    print_error(error.what());
  } catch (const std::bad_alloc&) {
    std::cerr << "bdlm: rank " << rank() << ": out of memory" << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "bdlm: rank " << rank() << ": " << error.what() << std::endl;
  }
  MPI_Abort(MPI_COMM_WORLD, 2);
  return 2;
}

}  // namespace bdlm

#else

namespace bdlm {

class MpiRanks::State {};

MpiRanks::MpiRanks() {
  throw InputError("this build has no MPI; --transport threads needs none");
}
MpiRanks::~MpiRanks() = default;
int MpiRanks::rank() const {
  return 0;
}
int MpiRanks::size() const {
  return 1;
}
StepRun MpiRanks::run(const StepProblem&, const Ownership&) {
  throw LogicError("no MPI");
}
int MpiRanks::guarded(const std::function<int()>&) {
  return 2;
}

}  // namespace bdlm

#endif
