#include "reference/parallel/call_shape.h"

#include "reference/base/error.h"

namespace bdlm {
namespace {

PayloadShape shape_of(const Payload& payload) {
  const ElementType& type = *payload.type;
  return {payload.count, type.name, type.bytes, type.trivial ? nullptr : payload.type};
}

std::string text(const PayloadShape& shape) {
  return shape.count == 0 && shape.type.empty() ? "nothing" : join(shape.count, " ", shape.type);
}

/// What the two shapes differ in, in words.
const char* difference(const PayloadShape& a, const PayloadShape& b) {
  if (a.count != b.count) {
    return "the counts must be equal";
  }
  return a.type == b.type && a.bytes == b.bytes ? "the host types differ, they must be the same"
                                                : "the element types must be the same";
}

}  // namespace

const char* name(CallKind kind) {
  switch (kind) {
    case CallKind::all_gather:
      return "all_gather";
    case CallKind::reduce_scatter:
      return "reduce_scatter";
    case CallKind::exchange:
      return "exchange";
    case CallKind::all_reduce:
      return "all_reduce";
  }
  throw LogicError(join("call kind ", static_cast<int>(kind), " has no name"));
}

CallShape shape_of(const Call& call, int ranks) {
  CallShape shape;
  shape.kind = call.kind;
  if (call.kind != CallKind::exchange) {
    shape.data = shape_of(call.send);
    return shape;
  }
  shape.sends.resize(static_cast<size_t>(ranks));
  shape.receives.resize(static_cast<size_t>(ranks));
  for (const PeerPayload& message : call.sends) {
    shape.sends.at(static_cast<size_t>(message.peer)) = shape_of(message.payload);
  }
  for (const PeerPayload& message : call.receives) {
    shape.receives.at(static_cast<size_t>(message.peer)) = shape_of(message.payload);
  }
  return shape;
}

std::string describe(const CallShape& shape) {
  if (shape.kind == CallKind::exchange) {
    return "exchange";
  }
  return join(name(shape.kind), " of ", text(shape.data));
}

std::string disagreement(const std::vector<CallShape>& by_rank) {
  const CallShape& first = by_rank.at(0);
  for (size_t r = 1; r < by_rank.size(); ++r) {
    const CallShape& other = by_rank[r];
    const bool same_kind = other.kind == first.kind;
    if (!same_kind || other.data != first.data) {
      return join("rank 0 calls ", describe(first), ", rank ", r, " calls ", describe(other), "; ",
                  same_kind ? difference(first.data, other.data)
                            : "all ranks must call the same operation");
    }
  }
  if (first.kind != CallKind::exchange) {
    return "";
  }
  for (size_t from = 0; from < by_rank.size(); ++from) {
    for (size_t to = 0; to < by_rank.size(); ++to) {
      const PayloadShape& sent = by_rank[from].sends.at(to);
      const PayloadShape& expected = by_rank[to].receives.at(from);
      if (sent != expected) {
        return join("exchange: rank ", from, " sends ", text(sent), " to rank ", to,
                    ", which expects ", text(expected), "; ", difference(sent, expected));
      }
    }
  }
  return "";
}

}  // namespace bdlm
