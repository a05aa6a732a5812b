#pragma once
// What a rank asks a group to do, and whether the ranks ask for the same.

#include <cstdint>
#include <string>
#include <vector>

#include "reference/schedule/communicator.h"

namespace bdlm {

enum class CallKind : uint8_t { all_gather, reduce_scatter, exchange, all_reduce };
const char* name(CallKind kind);

/// One operation as one rank calls it.
struct Call {
  CallKind kind = CallKind::all_gather;
  /// Of collectives; an all-reduce has only `send`, which it also receives.
  Payload send;
  Payload receive;
  /// Of exchanges.
  std::vector<PeerPayload> sends;
  std::vector<PeerPayload> receives;
};

/// A payload without its data.
struct PayloadShape {
  int64_t count = 0;
  std::string type;
  /// Bytes of one element.
  int64_t bytes = 0;
  /// Tells host types of the same name apart; null for types that move as plain bytes.
  const ElementType* host_type = nullptr;
  friend bool operator==(const PayloadShape&, const PayloadShape&) = default;
};

/// A call without its data.
struct CallShape {
  CallKind kind = CallKind::all_gather;
  /// Of collectives: the payload sent.
  PayloadShape data;
  /// Of exchanges: by peer; count 0 where there is no message.
  std::vector<PayloadShape> sends;
  std::vector<PayloadShape> receives;
};

CallShape shape_of(const Call& call, int ranks);

/// "all_gather of 12 f64".
std::string describe(const CallShape& shape);

/// Compares one operation's calls of all ranks: kind, element type and count, and for exchanges
/// both ends of each pair. Returns the first disagreement, with both ranks and both values, or "".
std::string disagreement(const std::vector<CallShape>& by_rank);

}  // namespace bdlm
