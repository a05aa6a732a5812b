#include "reference/parallel/thread_communicator.h"

#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "reference/base/error.h"
#include "reference/base/parallel_for.h"

namespace bdlm {
namespace {

/// How one rank's program ended.
struct Ending {
  std::exception_ptr error;
  bool only_reports_another = false;
};

Ending run_rank(const std::shared_ptr<ThreadGroup>& group, int rank,
                const std::function<void(Communicator&)>& program, const RunOptions& options) {
  if (options.openmp_threads > 0) {
    set_max_threads(options.openmp_threads);  // of this thread only
  }
  try {
    ThreadCommunicator communicator(group, rank);
    program(communicator);
    group->leave(rank);
    return {};
  } catch (const GroupAborted&) {
    return {std::current_exception(), true};
  } catch (const std::exception& error) {
    group->abort(rank, error.what());
    return {std::current_exception(), false};
  } catch (...) {
    group->abort(rank, "an unknown error");
    return {std::current_exception(), false};
  }
}

}  // namespace

ThreadCommunicator::ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank)
    : group_(std::move(group)), rank_(rank) {
  require(group_ != nullptr, "a rank needs a group");
  require(rank >= 0 && rank < group_->size(), "rank ", rank, " of a group of ", group_->size(),
          "; ranks are 0 to ", group_->size() - 1);
}

Ticket ThreadCommunicator::start_all_gather(Payload send, Payload receive) {
  return {group_->post(rank_, {CallKind::all_gather, send, receive, {}, {}})};
}

Ticket ThreadCommunicator::start_reduce_scatter(Payload send, Payload receive) {
  return {group_->post(rank_, {CallKind::reduce_scatter, send, receive, {}, {}})};
}

Ticket ThreadCommunicator::start_exchange(const std::vector<PeerPayload>& sends,
                                          const std::vector<PeerPayload>& receives) {
  return {group_->post(rank_, {CallKind::exchange, {}, {}, sends, receives})};
}

void ThreadCommunicator::do_all_reduce(Payload data) {
  group_->complete(rank_, group_->post(rank_, {CallKind::all_reduce, data, {}, {}, {}}));
}

void ThreadCommunicator::do_wait(Ticket ticket) {
  group_->complete(rank_, ticket.id);
}

void run_ranks(int ranks, const std::function<void(Communicator&)>& program,
               const RunOptions& options) {
  require(options.openmp_threads >= 0, options.openmp_threads,
          " OpenMP threads a rank; 0 (the default number) or more are allowed");
  const auto group = std::make_shared<ThreadGroup>(ranks, options.time_limit);
  std::vector<Ending> endings(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  std::exception_ptr start_error;
  try {
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        endings[static_cast<size_t>(rank)] = run_rank(group, rank, program, options);
      });
    }
  } catch (const std::exception& error) {
    start_error = std::current_exception();
    group->abort(static_cast<int>(threads.size()), error.what());
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (start_error != nullptr) {
    std::rethrow_exception(start_error);
  }
  for (const bool reports_another : {false, true}) {
    for (const Ending& ending : endings) {
      if (ending.error != nullptr && ending.only_reports_another == reports_another) {
        std::rethrow_exception(ending.error);
      }
    }
  }
}

}  // namespace bdlm
