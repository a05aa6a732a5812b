#include "reference/parallel/thread_group.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "reference/parallel/thread_moves.h"

namespace bdlm {

/// While it lives, other threads may touch the rank's payloads. The lock is held at both ends.
class ThreadGroup::Presence {
 public:
  Presence(ThreadGroup& group, int rank, std::unique_lock<std::mutex>& lock)
      : group_(group), rank_(static_cast<size_t>(rank)), lock_(lock) {
    group_.present_[rank_] = true;
    group_.changed_.notify_all();
  }
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;
  ~Presence() {
    // First no one new may begin, then those who have begun must end.
    group_.present_[rank_] = false;
    while (group_.touching_[rank_] > 0) {
      group_.changed_.wait(lock_);
    }
  }

 private:
  ThreadGroup& group_;
  const size_t rank_;
  std::unique_lock<std::mutex>& lock_;
};

ThreadGroup::ThreadGroup(int size, std::chrono::milliseconds time_limit)
    : size_(size), time_limit_(time_limit) {
  require(size >= 1, "a group of ", size, " ranks; at least one is needed");
  require(time_limit.count() > 0, "a time limit of ", time_limit.count(),
          " ms; it must be positive");
  const auto ranks = static_cast<size_t>(size);
  next_sequence_.assign(ranks, 0);
  present_.assign(ranks, false);
  left_.assign(ranks, false);
  touching_.assign(ranks, 0);
}

int64_t ThreadGroup::post(int rank, Call call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  throw_if_failed();
  const auto r = static_cast<size_t>(rank);
  const int64_t sequence = next_sequence_.at(r)++;
  InFlight& operation = in_flight_[sequence];
  if (operation.posts == 0) {
    const auto ranks = static_cast<size_t>(size_);
    operation.calls.resize(ranks);
    operation.posted.assign(ranks, false);
    operation.stages_done.assign(ranks, 0);
    operation.returned.assign(ranks, false);
  }
  operation.calls[r] = std::move(call);
  operation.posted[r] = true;
  ++operation.posts;
  if (operation.posts == size_) {
    // Compared when all have come, so that the message does not depend on who came first.
    std::vector<CallShape> shapes;
    for (const Call& one : operation.calls) {
      shapes.push_back(shape_of(one, size_));
    }
    const std::string difference = disagreement(shapes);
    if (!difference.empty()) {
      fail(join("operation ", sequence, ": ", difference), false);
      throw_if_failed();
    }
    changed_.notify_all();
  }
  return sequence;
}

void ThreadGroup::complete(int rank, int64_t sequence) {
  std::unique_lock<std::mutex> lock(mutex_);
  throw_if_failed();
  InFlight& operation = in_flight_.at(sequence);
  const Presence presence(*this, rank, lock);
  auto deadline = std::chrono::steady_clock::now() + time_limit_;
  while (true) {
    throw_if_failed();
    if (move_any(rank, lock)) {
      continue;
    }
    if (done(operation, rank)) {
      break;
    }
    const std::string gone = missing(operation, rank, true);
    if (!gone.empty()) {
      fail_late(operation, sequence, rank, "waits", gone);
      continue;
    }
    if (changed_.wait_until(lock, deadline) == std::cv_status::timeout && !failed_ &&
        !done(operation, rank)) {
      const std::string late = missing(operation, rank, false);
      if (!late.empty()) {
        fail_late(operation, sequence, rank, join("waited ", time_limit_.count(), " ms"), late);
      }
      // Nobody is missing: another thread is at work on it, and will end or fail.
      deadline = std::chrono::steady_clock::now() + time_limit_;
    }
  }
  operation.returned[static_cast<size_t>(rank)] = true;
  ++operation.returns;
  if (operation.returns == size_) {
    in_flight_.erase(sequence);
  }
}

void ThreadGroup::abort(int rank, const std::string& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  fail(join("rank ", rank, " left the group: ", reason), true);
}

void ThreadGroup::leave(int rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  left_.at(static_cast<size_t>(rank)) = true;
  changed_.notify_all();
}

bool ThreadGroup::done(const InFlight& operation, int rank) const {
  if (operation.posts < size_) {
    return false;
  }
  for (int peer = 0; peer < size_; ++peer) {
    const Call& call = operation.calls[static_cast<size_t>(peer)];
    const bool concerns = peer == rank || touches(call, rank);
    if (concerns && operation.stages_done[static_cast<size_t>(peer)] < stages(call.kind)) {
      return false;
    }
  }
  return true;
}

bool ThreadGroup::can_move(const InFlight& operation, int rank) const {
  const auto r = static_cast<size_t>(rank);
  const int stage = operation.stages_done[r];
  if (operation.posts < size_ || stage == stages(operation.calls[r].kind)) {
    return false;
  }
  const auto& reached = operation.stages_done;
  if (std::any_of(reached.begin(), reached.end(), [&](int n) { return n < stage; })) {
    return false;
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (touches(operation.calls[r], peer) && !present_[static_cast<size_t>(peer)] && peer != rank) {
      return false;
    }
  }
  return true;
}

void ThreadGroup::move(InFlight& operation, int64_t sequence, int rank,
                       std::unique_lock<std::mutex>& lock) {
  const auto r = static_cast<size_t>(rank);
  for (int peer = 0; peer < size_; ++peer) {
    touching_[static_cast<size_t>(peer)] +=
        peer != rank && touches(operation.calls[r], peer) ? 1 : 0;
  }
  const int stage = operation.stages_done[r];
  lock.unlock();
  std::exception_ptr error;
  std::string reason;
  try {
    move_stage(operation.calls, rank, stage);
  } catch (const std::exception& caught) {
    error = std::current_exception();
    reason = caught.what();
  } catch (...) {
    error = std::current_exception();
    reason = "an unknown error";
  }
  lock.lock();
  for (int peer = 0; peer < size_; ++peer) {
    touching_[static_cast<size_t>(peer)] -=
        peer != rank && touches(operation.calls[r], peer) ? 1 : 0;
  }
  changed_.notify_all();
  if (error != nullptr) {
    fail(join("rank ", rank, " left the group: operation ", sequence, ": ", reason), true);
    std::rethrow_exception(error);
  }
  ++operation.stages_done[r];
}

bool ThreadGroup::move_any(int rank, std::unique_lock<std::mutex>& lock) {
  for (auto& [sequence, operation] : in_flight_) {
    if (can_move(operation, rank)) {
      move(operation, sequence, rank, lock);
      return true;
    }
  }
  return false;
}

std::string ThreadGroup::missing(const InFlight& operation, int rank, bool only_who_left) const {
  const Call& mine = operation.calls[static_cast<size_t>(rank)];
  std::string text;
  for (int peer = 0; peer < size_; ++peer) {
    const auto p = static_cast<size_t>(peer);
    const bool concerns = touches(mine, peer) || touches(operation.calls[p], rank);
    const bool needed = !operation.posted[p] ||
                        (concerns && peer != rank && !present_[p] && !operation.returned[p]);
    if (needed && (left_[p] || !only_who_left)) {
      text +=
          join(text.empty() ? "" : ", ", "rank ", peer, " (",
               operation.posted[p] ? "started it but does not wait for it" : "has not started it",
               left_[p] ? ", and has ended)" : ")");
    }
  }
  return text;
}

void ThreadGroup::fail_late(const InFlight& operation, int64_t sequence, int rank,
                            const std::string& waited, const std::string& who) {
  const CallShape shape = shape_of(operation.calls[static_cast<size_t>(rank)], size_);
  fail(join("operation ", sequence, " (", describe(shape), "): rank ", rank, " ", waited, " for ",
            who),
       false);
}

void ThreadGroup::fail(const std::string& message, bool aborted) {
  if (!failed_) {
    failed_ = true;
    aborted_ = aborted;
    failure_ = message;
  }
  changed_.notify_all();
}

void ThreadGroup::throw_if_failed() const {
  if (failed_ && aborted_) {
    throw GroupAborted(failure_);
  }
  require<CommunicationError>(!failed_, failure_);
}

}  // namespace bdlm
