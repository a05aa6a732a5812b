#pragma once
// The meeting place of ranks that are threads of one process.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "reference/base/error.h"
#include "reference/parallel/call_shape.h"

namespace bdlm {

/// What a rank gets when another one left the group with an error. The other one's is the cause.
class GroupAborted : public CommunicationError {
 public:
  using CommunicationError::CommunicationError;
};

/// Matches the ranks' calls by their sequence number, and moves payloads between the threads.
///
/// A payload is touched by another thread only while its owner is inside `complete`. So an owner
/// that leaves by an exception may destroy its payloads, also those of transfers in flight. Ranks
/// may complete operations in different orders: a rank that waits for one operation does its part
/// of all that are ready. An operation begins to move when every rank has called it.
///
/// After the first failure every call throws: CommunicationError, or GroupAborted when a rank left.
class ThreadGroup {
 public:
  /// A rank waits at most `time_limit` for a peer in one operation.
  ThreadGroup(int size, std::chrono::milliseconds time_limit);

  int size() const { return size_; }

  /// Announces `rank`'s next call and returns its sequence number, from 0. Never blocks for peers.
  int64_t post(int rank, Call call);

  /// Blocks until no rank needs `rank`'s payloads of operation `sequence` any more and its own are
  /// filled. Called once for each call posted.
  void complete(int rank, int64_t sequence);

  /// `rank` has failed and will call nothing more: the others fail too.
  void abort(int rank, const std::string& reason);

  /// `rank` will call nothing more. Who still waits for it fails at once.
  void leave(int rank);

 private:
  struct InFlight {
    std::vector<Call> calls;
    std::vector<bool> posted;
    int posts = 0;
    std::vector<int> stages_done;
    /// Whether the rank's `complete` is over.
    std::vector<bool> returned;
    int returns = 0;
  };
  class Presence;

  /// Whether the rank's payloads are filled and nobody needs them any more.
  bool done(const InFlight& operation, int rank) const;
  bool can_move(const InFlight& operation, int rank) const;
  void move(InFlight& operation, int64_t sequence, int rank, std::unique_lock<std::mutex>& lock);
  bool move_any(int rank, std::unique_lock<std::mutex>& lock);
  /// Whom `rank` waits for in the operation and why, in words; "" when all have come.
  std::string missing(const InFlight& operation, int rank, bool only_who_left) const;
  void fail_late(const InFlight& operation, int64_t sequence, int rank, const std::string& waited,
                 const std::string& who);
  void fail(const std::string& message, bool aborted);
  void throw_if_failed() const;

  const int size_;
  const std::chrono::milliseconds time_limit_;
  std::mutex mutex_;
  // Any change of what follows is announced to all.
  std::condition_variable changed_;
  std::map<int64_t, InFlight> in_flight_;
  std::vector<int64_t> next_sequence_;
  /// Whether the rank is inside `complete`.
  std::vector<bool> present_;
  /// Whether the rank will call nothing more.
  std::vector<bool> left_;
  /// How many threads touch the rank's payloads now.
  std::vector<int> touching_;
  bool failed_ = false;
  bool aborted_ = false;
  std::string failure_;
};

}  // namespace bdlm
