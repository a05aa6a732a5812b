#include "reference/parallel/thread_moves.h"

#include <algorithm>

#include "reference/base/error.h"
#include "reference/parallel/rank_order_sum.h"

namespace bdlm {
namespace {

/// The addresses of element `index` of what each rank sends.
std::vector<void*> sent_parts(const std::vector<Call>& calls, int64_t index) {
  std::vector<void*> parts;
  parts.reserve(calls.size());
  for (const Call& call : calls) {
    parts.push_back(call.send.type->at(call.send.data, index));
  }
  return parts;
}

void move_all_gather(const std::vector<Call>& calls, int rank) {
  const Payload& receive = calls[static_cast<size_t>(rank)].receive;
  int64_t filled = 0;
  for (const Call& call : calls) {
    receive.type->copy(receive.type->at(receive.data, filled), call.send.data, call.send.count);
    filled += call.send.count;
  }
}

void move_reduce_scatter(const std::vector<Call>& calls, int rank) {
  const Payload& receive = calls[static_cast<size_t>(rank)].receive;
  rank_order_sum(*receive.type, receive.data, sent_parts(calls, rank * receive.count),
                 receive.count);
}

void move_exchange(const std::vector<Call>& calls, int rank) {
  for (const PeerPayload& in : calls[static_cast<size_t>(rank)].receives) {
    const auto& sends = calls[static_cast<size_t>(in.peer)].sends;
    const auto out = std::find_if(sends.begin(), sends.end(),
                                  [&](const PeerPayload& send) { return send.peer == rank; });
    require<LogicError>(out != sends.end(), "exchange: rank ", in.peer, " sends nothing to rank ",
                        rank, ", which expects a message");
    in.payload.type->copy(in.payload.data, out->payload.data, in.payload.count);
  }
}

void move_all_reduce(const std::vector<Call>& calls, int rank, int stage) {
  const Payload& data = calls[static_cast<size_t>(rank)].send;
  const auto ranks = static_cast<int64_t>(calls.size());
  if (stage == 0) {
    const int64_t whole = data.count / ranks;
    const int64_t rest = data.count % ranks;
    const int64_t begin = rank * whole + std::min<int64_t>(rank, rest);
    const int64_t count = whole + (rank < rest ? 1 : 0);
    const std::vector<void*> parts = sent_parts(calls, begin);
    rank_order_sum(*data.type, parts[0], parts, count);
  } else if (rank != 0) {
    data.type->copy(data.data, calls[0].send.data, data.count);
  }
}

}  // namespace

int stages(CallKind kind) {
  return kind == CallKind::all_reduce ? 2 : 1;
}

bool touches(const Call& call, int peer) {
  if (call.kind != CallKind::exchange) {
    return true;
  }
  return std::any_of(call.receives.begin(), call.receives.end(),
                     [&](const PeerPayload& in) { return in.peer == peer; });
}

void move_stage(const std::vector<Call>& calls, int rank, int stage) {
  switch (calls[static_cast<size_t>(rank)].kind) {
    case CallKind::all_gather:
      return move_all_gather(calls, rank);
    case CallKind::reduce_scatter:
      return move_reduce_scatter(calls, rank);
    case CallKind::exchange:
      return move_exchange(calls, rank);
    case CallKind::all_reduce:
      return move_all_reduce(calls, rank, stage);
  }
}

}  // namespace bdlm
