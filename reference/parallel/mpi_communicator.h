#pragma once
// Ranks as processes, over MPI.

#include <mpi.h>

#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "reference/parallel/call_shape.h"
#include "reference/parallel/mpi_transfer.h"
#include "reference/schedule/communicator.h"

namespace bdlm {

struct MpiOptions {
  /// How long a rank waits for its peers in one operation.
  std::chrono::milliseconds time_limit{60000};
  /// Compares every operation's kind, count and type over all ranks before it starts, so that a
  /// disagreement is an error on all of them. A start then waits until all ranks have come. Without
  /// it, ranks that disagree hang until the time limit or exchange garbage.
  bool check_shapes = true;
  /// Larger counts go as derived types; MPI's own limit.
  int64_t largest_count = std::numeric_limits<int>::max();
  /// All-reduce goes in pieces of at most this many bytes (but at least an element a rank).
  int64_t all_reduce_bytes = int64_t{1} << 24;
};

/// A rank of an MPI communicator, of which it uses a duplicate of its own. The duplicate lives
/// until MPI is finalised, so make few of these. Elements must move as plain bytes: other types are
/// an InputError. Results equal those of threads bit for bit, since sums are taken here in rank
/// order and not by MPI.
///
/// After a CommunicationError MPI may still write to the payloads of transfers in flight: they must
/// outlive the communicator, or the process should end.
class MpiCommunicator final : public Communicator {
 public:
  /// Called by all ranks of `comm`, within the life of an MpiSession.
  explicit MpiCommunicator(MPI_Comm comm = MPI_COMM_WORLD, const MpiOptions& options = {});
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }

 protected:
  Ticket start_all_gather(Payload send, Payload receive) override;
  Ticket start_reduce_scatter(Payload send, Payload receive) override;
  Ticket start_exchange(const std::vector<PeerPayload>& sends,
                        const std::vector<PeerPayload>& receives) override;
  void do_all_reduce(Payload data) override;
  void do_wait(Ticket ticket) override;

 private:
  std::unique_ptr<MpiTransfer> begin(const Call& call);
  void compare_shapes(const CallShape& shape);
  std::unique_ptr<MpiTransfer> post_all_gather(std::unique_ptr<MpiTransfer> transfer,
                                               const void* send, void* receive, int64_t bytes);
  std::unique_ptr<MpiTransfer> post_all_to_all(std::unique_ptr<MpiTransfer> transfer,
                                               const void* send, int64_t bytes);
  Ticket keep(std::unique_ptr<MpiTransfer> transfer);
  /// Blocks until the requests are complete. Abandons the transfer if that fails.
  std::unique_ptr<MpiTransfer> finish(std::unique_ptr<MpiTransfer> transfer);
  [[noreturn]] void fail(std::unique_ptr<MpiTransfer> transfer, const std::string& reason);
  void sum_incoming(MpiTransfer& transfer, const Payload& sum) const;

  MpiOptions options_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  int64_t largest_tag_ = 32767;
  int64_t next_sequence_ = 0;
  std::map<int64_t, std::unique_ptr<MpiTransfer>> in_flight_;
  /// The first failure, "" before it. Later calls repeat it.
  std::string failure_;
};

}  // namespace bdlm
