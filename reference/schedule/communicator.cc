#include "reference/schedule/communicator.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "reference/base/error.h"

namespace bdlm {
namespace {

void check_payload(const Payload& payload, const char* what, std::string_view purpose) {
  require(payload.count >= 0, what, " for ", purpose, " has ", payload.count,
          " elements; the count must not be negative");
  require(payload.type != nullptr, what, " for ", purpose, " has no element type");
  require(payload.type->bytes > 0, what, " for ", purpose, " has elements of ", payload.type->bytes,
          " bytes; they need at least one");
  require(payload.count <= std::numeric_limits<int64_t>::max() / payload.type->bytes, what, " for ",
          purpose, " has ", payload.count, " elements of ", payload.type->bytes,
          " bytes, more than 2^63 - 1 bytes");
  require(payload.data != nullptr || payload.count == 0, what, " for ", purpose, " has ",
          payload.count, " elements but no data");
}

bool overlap(const Payload& a, const Payload& b) {
  if (a.count == 0 || b.count == 0) {
    return false;
  }
  // std::less gives a total order also over pointers into different arrays.
  const std::less<const void*> before;
  const void* a_end = a.type->at(a.data, a.count);
  const void* b_end = b.type->at(b.data, b.count);
  return before(a.data, b_end) && before(b.data, a_end);
}

void check_collective(const Payload& send, const Payload& receive, const char* operation,
                      std::string_view purpose) {
  require(same_type(*send.type, *receive.type), operation, " for ", purpose, " sends ",
          send.type->name, " but receives ", receive.type->name, "; the types must be the same");
  require(!overlap(send, receive), operation, " for ", purpose,
          ": the payloads sent and received overlap; they must be apart");
}

/// `larger` must be `ranks` times `smaller`.
void check_counts(int64_t larger, int64_t smaller, int ranks, const char* operation,
                  const char* larger_end, std::string_view purpose) {
  require(larger % ranks == 0 && larger / ranks == smaller, operation, " for ", purpose, " ",
          larger_end, " ", larger, " elements; it must be ", smaller, " elements times ", ranks,
          " ranks");
}

/// Checks the peers and leaves out empty payloads.
std::vector<PeerPayload> checked_messages(const std::vector<PeerPayload>& messages, int rank,
                                          int ranks, const char* what, std::string_view purpose) {
  std::vector<PeerPayload> kept;
  std::vector<bool> seen(static_cast<size_t>(ranks), false);
  for (const PeerPayload& message : messages) {
    require(message.peer >= 0 && message.peer < ranks, what, " for ", purpose, " names rank ",
            message.peer, "; ranks are 0 to ", ranks - 1);
    require(message.peer != rank, what, " for ", purpose, " names rank ", rank,
            " itself; a message needs another rank");
    require(!seen[static_cast<size_t>(message.peer)], what, " for ", purpose, " names rank ",
            message.peer, " twice; one message each way is allowed");
    seen[static_cast<size_t>(message.peer)] = true;
    if (message.payload.count != 0) {
      check_payload(message.payload, what, purpose);
      kept.push_back(message);
    }
  }
  return kept;
}

}  // namespace

bool same_type(const ElementType& a, const ElementType& b) {
  return &a == &b || (a.trivial && b.trivial && a.bytes == b.bytes &&
                      std::string_view(a.name) == std::string_view(b.name));
}

const char* name(Operation op) {
  switch (op) {
    case Operation::all_gather:
      return "all_gather";
    case Operation::reduce_scatter:
      return "reduce_scatter";
    case Operation::send:
      return "send";
    case Operation::receive:
      return "receive";
    case Operation::all_reduce:
      return "all_reduce";
  }
  throw LogicError(join("operation ", static_cast<int>(op), " has no name"));
}

Ticket Communicator::open(Ticket ticket) {
  in_flight_.push_back(ticket.id);
  return ticket;
}

Ticket Communicator::all_gather(Payload send, Payload receive, std::string_view purpose) {
  check_payload(send, "all_gather's send", purpose);
  check_payload(receive, "all_gather's receive", purpose);
  check_counts(receive.count, send.count, size(), "all_gather", "receives", purpose);
  check_collective(send, receive, "all_gather", purpose);
  log_.push_back({Operation::all_gather, send.bytes() * (size() - 1), -1, std::string(purpose)});
  return open(start_all_gather(send, receive));
}

Ticket Communicator::reduce_scatter(Payload send, Payload receive, std::string_view purpose) {
  check_payload(send, "reduce_scatter's send", purpose);
  check_payload(receive, "reduce_scatter's receive", purpose);
  check_counts(send.count, receive.count, size(), "reduce_scatter", "sends", purpose);
  check_collective(send, receive, "reduce_scatter", purpose);
  log_.push_back(
      {Operation::reduce_scatter, send.bytes() - receive.bytes(), -1, std::string(purpose)});
  return open(start_reduce_scatter(send, receive));
}

Ticket Communicator::exchange(const std::vector<PeerPayload>& sends,
                              const std::vector<PeerPayload>& receives, std::string_view purpose) {
  const auto kept_sends = checked_messages(sends, rank(), size(), "send", purpose);
  const auto kept_receives = checked_messages(receives, rank(), size(), "receive", purpose);
  for (size_t i = 0; i < kept_receives.size(); ++i) {
    const PeerPayload& in = kept_receives[i];
    for (const PeerPayload& out : kept_sends) {
      require(!overlap(in.payload, out.payload), "exchange for ", purpose,
              ": what comes from rank ", in.peer, " overlaps what goes to rank ", out.peer);
    }
    for (size_t j = 0; j < i; ++j) {
      require(!overlap(in.payload, kept_receives[j].payload), "exchange for ", purpose,
              ": what comes from rank ", in.peer, " overlaps what comes from rank ",
              kept_receives[j].peer);
    }
  }
  for (const PeerPayload& message : kept_sends) {
    log_.push_back({Operation::send, message.payload.bytes(), message.peer, std::string(purpose)});
  }
  for (const PeerPayload& message : kept_receives) {
    log_.push_back(
        {Operation::receive, message.payload.bytes(), message.peer, std::string(purpose)});
  }
  return open(start_exchange(kept_sends, kept_receives));
}

void Communicator::all_reduce(Payload data, std::string_view purpose) {
  check_payload(data, "all_reduce's payload", purpose);
  const int64_t ranks = size();
  const int64_t shard = data.count / ranks + (data.count % ranks == 0 ? 0 : 1);
  log_.push_back({Operation::all_reduce, 2 * (ranks - 1) * shard * data.type->bytes, -1,
                  std::string(purpose)});
  do_all_reduce(data);
}

void Communicator::wait(Ticket ticket) {
  const auto found = std::find(in_flight_.begin(), in_flight_.end(), ticket.id);
  require<LogicError>(found != in_flight_.end(), "ticket ", ticket.id,
                      " is not in flight; every ticket is waited for exactly once");
  in_flight_.erase(found);
  do_wait(ticket);
}

int64_t Communicator::bytes_sent(std::string_view purpose) const {
  int64_t bytes = 0;
  for (const LogEntry& entry : log_) {
    if (entry.operation != Operation::receive && entry.purpose == purpose) {
      bytes += entry.bytes;
    }
  }
  return bytes;
}

}  // namespace bdlm
