#include "reference/parallel/testing_program.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "reference/parallel/call_shape.h"

namespace bdlm::testing {
namespace {

using Bytes = std::vector<std::byte>;
using Random = std::mt19937_64;

struct Planned {
  CallKind kind;
  const ElementType* type;
  /// Of collectives: of what the rank sends in a gather, gets in a reduce-scatter, has in an
  /// all-reduce.
  int64_t count;
  /// Of exchanges: [from][to].
  std::vector<std::vector<int64_t>> counts;
  const char* purpose;
};

int64_t below(Random& random, int64_t bound) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
}

std::vector<Planned> plan_program(uint64_t seed, int ranks, int operations) {
  Random random(seed);
  const ElementType* types[] = {element_type<double>(), element_type<float>(),
                                element_type<int64_t>()};
  const char* purposes[] = {"attention", "parameters", "loss"};
  const auto p = static_cast<size_t>(ranks);
  std::vector<Planned> plan;
  for (int i = 0; i < operations; ++i) {
    Planned one{static_cast<CallKind>(below(random, 4)),
                types[below(random, 3)],
                below(random, 41),
                {},
                purposes[below(random, 3)]};
    one.counts.assign(p, std::vector<int64_t>(p, 0));
    for (size_t from = 0; from < p; ++from) {
      for (size_t to = 0; to < p; ++to) {
        const bool sends = from != to && below(random, 3) != 0;
        one.counts[from][to] = sends ? below(random, 41) : 0;
      }
    }
    plan.push_back(one);
  }
  return plan;
}

/// Numbers of such different sizes that the order of a sum shows in its bits.
Bytes data_of(uint64_t seed, int operation, int rank, int part, const ElementType* type,
              int64_t count) {
  Random random(
      ((seed * 1009 + static_cast<uint64_t>(operation)) * 1009 + static_cast<uint64_t>(rank)) *
          1009 +
      static_cast<uint64_t>(part));
  Bytes bytes(static_cast<size_t>(count * type->bytes));
  for (int64_t i = 0; i < count; ++i) {
    const double value = std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                                    static_cast<int>(below(random, 40)) - 80);
    std::byte* at = bytes.data() + i * type->bytes;
    if (type == element_type<double>()) {
      std::memcpy(at, &value, sizeof(double));
    } else if (type == element_type<float>()) {
      const auto single = static_cast<float>(value);
      std::memcpy(at, &single, sizeof(float));
    } else {
      const auto integer = static_cast<int64_t>(random() >> 8);
      std::memcpy(at, &integer, sizeof(int64_t));
    }
  }
  return bytes;
}

/// What `rank` puts into an operation: one payload, or one for each peer.
std::vector<Bytes> inputs(const std::vector<Planned>& plan, uint64_t seed, int operation, int rank,
                          int ranks) {
  const Planned& one = plan[static_cast<size_t>(operation)];
  std::vector<Bytes> parts;
  if (one.kind == CallKind::exchange) {
    for (int to = 0; to < ranks; ++to) {
      parts.push_back(data_of(seed, operation, rank, to, one.type,
                              one.counts[static_cast<size_t>(rank)][static_cast<size_t>(to)]));
    }
  } else {
    const int64_t count = one.kind == CallKind::reduce_scatter ? one.count * ranks : one.count;
    parts.push_back(data_of(seed, operation, rank, 0, one.type, count));
  }
  return parts;
}

template <class T>
void add_bytes(Bytes& sum, const std::byte* part) {
  for (size_t at = 0; at < sum.size(); at += sizeof(T)) {
    T a;
    T b;
    std::memcpy(&a, &sum[at], sizeof(T));
    std::memcpy(&b, part + at, sizeof(T));
    a = a + b;
    std::memcpy(&sum[at], &a, sizeof(T));
  }
}

/// An operation in flight: memory that stays in place.
struct Flight {
  int operation = 0;
  Ticket ticket;
  std::vector<Bytes> in;
  std::vector<Bytes> out;
};

Payload payload(Bytes& bytes, const ElementType* type) {
  return {bytes.data(), static_cast<int64_t>(bytes.size()) / type->bytes, type};
}

}  // namespace

ProgramResult run_program(Communicator& communicator, uint64_t seed, int operations, bool jitter) {
  const int rank = communicator.rank();
  const int ranks = communicator.size();
  const std::vector<Planned> plan = plan_program(seed, ranks, operations);
  Random own(seed * 1000003 + static_cast<uint64_t>(rank));
  ProgramResult result;
  result.received.resize(plan.size());
  std::vector<Flight> flights;
  const auto wait_for = [&](size_t i) {
    communicator.wait(flights[i].ticket);
    Bytes& received = result.received[static_cast<size_t>(flights[i].operation)];
    for (const Bytes& part : flights[i].in) {
      received.insert(received.end(), part.begin(), part.end());
    }
    flights.erase(flights.begin() + static_cast<std::ptrdiff_t>(i));
  };
  for (int i = 0; i < operations; ++i) {
    const Planned& one = plan[static_cast<size_t>(i)];
    const int64_t bytes = one.count * one.type->bytes;
    Flight flight{i, {}, {}, inputs(plan, seed, i, rank, ranks)};
    if (jitter && below(own, 4) == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(below(own, 200)));
    }
    switch (one.kind) {
      case CallKind::all_gather:
        flight.in.emplace_back(static_cast<size_t>(bytes * ranks));
        flight.ticket = communicator.all_gather(payload(flight.out[0], one.type),
                                                payload(flight.in[0], one.type), one.purpose);
        break;
      case CallKind::reduce_scatter:
        flight.in.emplace_back(static_cast<size_t>(bytes));
        flight.ticket = communicator.reduce_scatter(payload(flight.out[0], one.type),
                                                    payload(flight.in[0], one.type), one.purpose);
        break;
      case CallKind::all_reduce:
        communicator.all_reduce(payload(flight.out[0], one.type), one.purpose);
        result.received[static_cast<size_t>(i)] = flight.out[0];
        continue;
      case CallKind::exchange: {
        std::vector<PeerPayload> sends;
        std::vector<PeerPayload> receives;
        flight.in.resize(static_cast<size_t>(ranks));
        for (int peer = 0; peer < ranks; ++peer) {
          const auto p = static_cast<size_t>(peer);
          flight.in[p].resize(
              static_cast<size_t>(one.counts[p][static_cast<size_t>(rank)] * one.type->bytes));
          if (peer != rank) {
            sends.push_back({peer, payload(flight.out[p], one.type)});
            receives.push_back({peer, payload(flight.in[p], one.type)});
          }
        }
        flight.ticket = communicator.exchange(sends, receives, one.purpose);
        break;
      }
    }
    flights.push_back(std::move(flight));
    while (!flights.empty() && (flights.size() > 4 || below(own, 3) == 0)) {
      wait_for(static_cast<size_t>(below(own, static_cast<int64_t>(flights.size()))));
    }
  }
  while (!flights.empty()) {
    wait_for(flights.size() - 1);
  }
  result.log = communicator.log();
  return result;
}

ProgramResult expected_result(int rank, int ranks, uint64_t seed, int operations) {
  const std::vector<Planned> plan = plan_program(seed, ranks, operations);
  ProgramResult result;
  for (int i = 0; i < operations; ++i) {
    const Planned& one = plan[static_cast<size_t>(i)];
    const int64_t bytes = one.count * one.type->bytes;
    const auto add = one.type == element_type<double>()  ? add_bytes<double>
                     : one.type == element_type<float>() ? add_bytes<float>
                                                         : add_bytes<int64_t>;
    Bytes received;
    for (int from = 0; from < ranks; ++from) {
      const std::vector<Bytes> sent = inputs(plan, seed, i, from, ranks);
      const std::byte* part = sent[0].data();
      if (one.kind == CallKind::exchange || one.kind == CallKind::all_gather) {
        const Bytes& more = sent[one.kind == CallKind::exchange ? static_cast<size_t>(rank) : 0];
        received.insert(received.end(), more.begin(), more.end());
        continue;
      }
      part += one.kind == CallKind::reduce_scatter ? rank * bytes : 0;
      if (from == 0) {
        received.assign(part, part + bytes);
      } else {
        add(received, part);
      }
    }
    result.received.push_back(received);

    const int64_t others = ranks - 1;
    const int64_t padded = (one.count + ranks - 1) / ranks * ranks * one.type->bytes;
    const auto r = static_cast<size_t>(rank);
    switch (one.kind) {
      case CallKind::all_gather:
        result.log.push_back({Operation::all_gather, bytes * others, -1, one.purpose});
        break;
      case CallKind::reduce_scatter:
        result.log.push_back({Operation::reduce_scatter, bytes * others, -1, one.purpose});
        break;
      case CallKind::all_reduce:
        result.log.push_back(
            {Operation::all_reduce, 2 * (padded / ranks) * others, -1, one.purpose});
        break;
      case CallKind::exchange:
        for (const bool out : {true, false}) {
          for (int peer = 0; peer < ranks; ++peer) {
            const auto p = static_cast<size_t>(peer);
            const int64_t size = (out ? one.counts[r][p] : one.counts[p][r]) * one.type->bytes;
            if (size > 0) {
              result.log.push_back(
                  {out ? Operation::send : Operation::receive, size, peer, one.purpose});
            }
          }
        }
        break;
    }
  }
  return result;
}

}  // namespace bdlm::testing
