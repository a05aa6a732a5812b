#pragma once
// What moves rows between ranks.

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace bdlm {

/// How elements of one type are moved. Elements may be host objects (exact rationals), so a
/// communicator that cannot move bytes of that type refuses it.
struct ElementType {
  const char* name;
  /// Bytes an element has on the wire.
  int64_t bytes;
  /// True when elements may be moved as plain bytes.
  bool trivial;
  /// dst[i] = src[i]
  void (*copy)(void* dst, const void* src, int64_t count);
  /// dst[i] += src[i]
  void (*add)(void* dst, const void* src, int64_t count);
  /// The address of element `index`.
  void* (*at)(void* data, int64_t index);
};

/// True when elements of the two types may stand for each other. Host objects of two types may have
/// the same name and size, so they are told apart by their description's address.
bool same_type(const ElementType& a, const ElementType& b);

/// `count` elements at `data`.
struct Payload {
  void* data = nullptr;
  int64_t count = 0;
  const ElementType* type = nullptr;
  int64_t bytes() const { return type == nullptr ? 0 : count * type->bytes; }
};

/// A payload for, or from, one peer.
struct PeerPayload {
  int peer = 0;
  Payload payload;
};

enum class Operation : uint8_t { all_gather, reduce_scatter, send, receive, all_reduce };
const char* name(Operation op);

/// One line of a rank's ordered log.
struct LogEntry {
  Operation operation;
  /// Bytes that this rank sent (for `receive`: that came in), padding included.
  int64_t bytes;
  /// The other rank of a send or receive; -1 for a collective.
  int peer;
  /// What the transfer was for: "attention", "parameters", "loss".
  std::string purpose;
  friend bool operator==(const LogEntry&, const LogEntry&) = default;
};

/// A transfer in flight. Every ticket is waited for exactly once, in any order.
struct Ticket {
  int64_t id = -1;
};

/// A group of ranks. Every rank calls the same operations in the same order. Payloads stay in place
/// and untouched until the wait returns; no two of one operation may overlap where one of them
/// receives. Sums are taken in rank order, so results do not depend on timing. Throws InputError
/// when a rank's own arguments are wrong, LogicError when a ticket is not in flight,
/// CommunicationError when peers disagree about an operation, or one is lost or late.
///
/// Bytes are counted here, once for every transport: all-gather sends its shard to P - 1 ranks;
/// reduce-scatter sends all but its own shard; a message its payload; all-reduce both of the first,
/// over a count padded to a multiple of P.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// `receive` (P * send.count elements) becomes the `send` of all ranks, in rank order.
  Ticket all_gather(Payload send, Payload receive, std::string_view purpose);
  /// `receive` (send.count / P elements) becomes the sum over ranks of their slice for this rank.
  Ticket reduce_scatter(Payload send, Payload receive, std::string_view purpose);
  /// Sends and receives of one group, none of which waits for another: at most one message each way
  /// between two ranks. Empty payloads are neither sent nor logged. Every rank of the group calls
  /// it, also one that has nothing to send or receive.
  Ticket exchange(const std::vector<PeerPayload>& sends, const std::vector<PeerPayload>& receives,
                  std::string_view purpose);
  /// `data` becomes the sum over ranks. Blocks.
  void all_reduce(Payload data, std::string_view purpose);
  /// Blocks until the transfer is complete.
  void wait(Ticket ticket);

  const std::vector<LogEntry>& log() const { return log_; }
  /// Bytes sent so far for `purpose`.
  int64_t bytes_sent(std::string_view purpose) const;
  void clear_log() { log_.clear(); }

 protected:
  // The arguments have been checked; the payloads of an exchange are not empty. Every start returns
  // a ticket that no transfer in flight has.
  virtual Ticket start_all_gather(Payload send, Payload receive) = 0;
  virtual Ticket start_reduce_scatter(Payload send, Payload receive) = 0;
  virtual Ticket start_exchange(const std::vector<PeerPayload>& sends,
                                const std::vector<PeerPayload>& receives) = 0;
  virtual void do_all_reduce(Payload data) = 0;
  virtual void do_wait(Ticket ticket) = 0;

 private:
  Ticket open(Ticket ticket);

  std::vector<LogEntry> log_;
  /// The ids of the tickets that have not been waited for.
  std::vector<int64_t> in_flight_;
};

/// "f64", "i32", "u8" and so on for arithmetic types.
template <class T>
constexpr const char* element_name() {
  if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T) == 4 ? "f32" : sizeof(T) == 8 ? "f64" : "long double";
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    return sizeof(T) == 1 ? "i8" : sizeof(T) == 2 ? "i16" : sizeof(T) == 4 ? "i32" : "i64";
  } else if constexpr (std::is_integral_v<T>) {
    return sizeof(T) == 1 ? "u8" : sizeof(T) == 2 ? "u16" : sizeof(T) == 4 ? "u32" : "u64";
  } else {
    return "host object";
  }
}

/// The name and the bytes of T on the wire. Arithmetic types go as they are; any other type is a
/// host object, which counts as sizeof(T) and never leaves the process.
template <class T>
const ElementType* element_type() {
  static const ElementType type{
      element_name<T>(),
      static_cast<int64_t>(sizeof(T)),
      std::is_arithmetic_v<T>,
      [](void* dst, const void* src, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          static_cast<T*>(dst)[i] = static_cast<const T*>(src)[i];
        }
      },
      [](void* dst, const void* src, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          static_cast<T*>(dst)[i] += static_cast<const T*>(src)[i];
        }
      },
      [](void* data, int64_t i) -> void* { return static_cast<T*>(data) + i; }};
  return &type;
}

}  // namespace bdlm
