#pragma once
// Ranks as threads of one process.

#include <chrono>
#include <functional>
#include <memory>

#include "reference/parallel/thread_group.h"
#include "reference/schedule/communicator.h"

namespace bdlm {

/// One rank of a ThreadGroup, used by one thread. Payloads move by ElementType::copy and add, so
/// host objects travel too. Transfers move when the ranks wait: no thread works in the background.
class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank);

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }

 protected:
  Ticket start_all_gather(Payload send, Payload receive) override;
  Ticket start_reduce_scatter(Payload send, Payload receive) override;
  Ticket start_exchange(const std::vector<PeerPayload>& sends,
                        const std::vector<PeerPayload>& receives) override;
  void do_all_reduce(Payload data) override;
  void do_wait(Ticket ticket) override;

 private:
  std::shared_ptr<ThreadGroup> group_;
  int rank_;
};

struct RunOptions {
  /// How long a rank waits for a peer in one operation.
  std::chrono::milliseconds time_limit{60000};
  /// OpenMP threads of each rank; 0 leaves OpenMP's default.
  int openmp_threads = 1;
};

/// Runs `program` on `ranks` threads, each with its own Communicator, and joins them all. When
/// ranks throw, the others get an error instead of waiting for them, and the error of the lowest
/// rank is rethrown; errors that only report that another rank left come last.
void run_ranks(int ranks, const std::function<void(Communicator&)>& program,
               const RunOptions& options = {});

}  // namespace bdlm
