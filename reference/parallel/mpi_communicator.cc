#include "reference/parallel/mpi_communicator.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "reference/parallel/mpi_session.h"
#include "reference/parallel/rank_order_sum.h"

namespace bdlm {
namespace {

constexpr int kNameBytes = 16;

/// A PayloadShape of fixed size.
struct PayloadRecord {
  int64_t count;
  int64_t bytes;
  char type[kNameBytes];
};

PayloadRecord to_record(const PayloadShape& shape) {
  PayloadRecord record{shape.count, shape.bytes, {}};
  std::memcpy(record.type, shape.type.data(), std::min<size_t>(shape.type.size(), kNameBytes));
  return record;
}

PayloadShape from_record(const PayloadRecord& record) {
  return {record.count, std::string(record.type, strnlen(record.type, kNameBytes)), record.bytes,
          nullptr};
}

/// One rank's record: the kind in the first entry's place of a count, then the collective's
/// payload, then for every peer what is sent to and what is expected from it.
std::vector<PayloadRecord> to_records(const CallShape& shape, size_t ranks) {
  std::vector<PayloadRecord> records(2 + 2 * ranks, PayloadRecord{0, 0, {}});
  records[0].count = static_cast<int64_t>(shape.kind);
  records[1] = to_record(shape.data);
  for (size_t peer = 0; peer < shape.sends.size(); ++peer) {
    records[2 + peer] = to_record(shape.sends[peer]);
    records[2 + ranks + peer] = to_record(shape.receives[peer]);
  }
  return records;
}

CallShape from_records(const PayloadRecord* records, size_t ranks) {
  CallShape shape;
  shape.kind = static_cast<CallKind>(records[0].count);
  shape.data = from_record(records[1]);
  for (size_t peer = 0; peer < ranks; ++peer) {
    shape.sends.push_back(from_record(records[2 + peer]));
    shape.receives.push_back(from_record(records[2 + ranks + peer]));
  }
  return shape;
}

void require_trivial(const Payload& payload, const char* operation) {
  require(payload.type->trivial, operation, " of ", payload.type->name, " (", payload.type->bytes,
          " bytes) over MPI; only types that move as plain bytes are allowed");
}

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm comm, const MpiOptions& options) : options_(options) {
  require(options.time_limit.count() > 0, "a time limit of ", options.time_limit.count(),
          " ms; it must be positive");
  require(options.largest_count >= 1 && options.largest_count <= std::numeric_limits<int>::max(),
          "a largest MPI count of ", options.largest_count, "; 1 to 2^31 - 1 are allowed");
  require(options.all_reduce_bytes >= 1, "all-reduce pieces of ", options.all_reduce_bytes,
          " bytes; at least 1 is needed");
  require_mpi(MPI_Comm_dup(comm, &comm_), "MPI_Comm_dup");
  require_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  require_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  require_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  int* bound = nullptr;
  int found = 0;
  require_mpi(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &found), "MPI_Comm_get_attr");
  if (found != 0) {
    largest_tag_ = *bound;
  }
}

MpiCommunicator::~MpiCommunicator() {
  for (auto& [id, transfer] : in_flight_) {
    abandon(std::move(transfer));
  }
  // The duplicate is not freed: that is a collective operation, and this rank cannot know whether
  // another one has failed and left something unfinished on it.
}

Ticket MpiCommunicator::start_all_gather(Payload send, Payload receive) {
  require_trivial(send, "all_gather");
  auto transfer = begin({CallKind::all_gather, send, receive, {}, {}});
  return keep(post_all_gather(std::move(transfer), send.data, receive.data, send.bytes()));
}

Ticket MpiCommunicator::start_reduce_scatter(Payload send, Payload receive) {
  require_trivial(send, "reduce_scatter");
  auto transfer = begin({CallKind::reduce_scatter, send, receive, {}, {}});
  transfer->sum = receive;
  return keep(post_all_to_all(std::move(transfer), send.data, receive.bytes()));
}

Ticket MpiCommunicator::start_exchange(const std::vector<PeerPayload>& sends,
                                       const std::vector<PeerPayload>& receives) {
  for (const auto* messages : {&sends, &receives}) {
    for (const PeerPayload& message : *messages) {
      require_trivial(message.payload, "exchange");
    }
  }
  auto transfer = begin({CallKind::exchange, {}, {}, sends, receives});
  // One message each way between two ranks: the sequence number tells exchanges apart.
  const int tag = static_cast<int>((next_sequence_ - 1) % largest_tag_);
  // Types first: once a request is posted, nothing but `fail` may leave this function.
  for (const auto* messages : {&receives, &sends}) {
    for (const PeerPayload& message : *messages) {
      transfer->types.emplace_back(message.payload.bytes(), options_.largest_count);
      transfer->bytes += message.payload.bytes();
    }
  }
  transfer->requests.assign(transfer->types.size(), MPI_REQUEST_NULL);
  for (size_t i = 0; i < transfer->requests.size(); ++i) {
    const bool is_send = i >= receives.size();
    const PeerPayload& message = is_send ? sends[i - receives.size()] : receives[i];
    const MpiBytes& bytes = transfer->types[i];
    MPI_Request* request = &transfer->requests[i];
    void* data = message.payload.data;
    const int code =
        is_send ? MPI_Isend(data, bytes.count(), bytes.type(), message.peer, tag, comm_, request)
                : MPI_Irecv(data, bytes.count(), bytes.type(), message.peer, tag, comm_, request);
    if (code != MPI_SUCCESS) {
      fail(std::move(transfer), join(is_send ? "MPI_Isend to" : "MPI_Irecv from", " rank ",
                                     message.peer, ": ", mpi_error_text(code)));
    }
  }
  return keep(std::move(transfer));
}

void MpiCommunicator::do_all_reduce(Payload data) {
  require_trivial(data, "all_reduce");
  auto transfer = begin({CallKind::all_reduce, data, {}, {}, {}});
  const ElementType& type = *data.type;
  // Pieces of P slices; the last one is padded to a multiple of P.
  const int64_t largest_slice =
      std::max<int64_t>(1, options_.all_reduce_bytes / (type.bytes * size_));
  for (int64_t first = 0; first < data.count; first += largest_slice * size_) {
    const int64_t count = std::min(largest_slice * size_, data.count - first);
    const int64_t slice = (count + size_ - 1) / size_;
    auto* here = static_cast<std::byte*>(type.at(data.data, first));
    transfer->outgoing.assign(static_cast<size_t>(slice * size_ * type.bytes), std::byte{0});
    std::memcpy(transfer->outgoing.data(), here, static_cast<size_t>(count * type.bytes));
    const void* out = transfer->outgoing.data();
    transfer = finish(post_all_to_all(std::move(transfer), out, slice * type.bytes));
    // The slices have arrived; this rank's sum takes the place of what it sent.
    sum_incoming(*transfer, {transfer->outgoing.data(), slice, &type});
    void* in = transfer->incoming.data();
    transfer = finish(post_all_gather(std::move(transfer), out, in, slice * type.bytes));
    std::memcpy(here, transfer->incoming.data(), static_cast<size_t>(count * type.bytes));
  }
}

void MpiCommunicator::do_wait(Ticket ticket) {
  require<CommunicationError>(failure_.empty(), failure_);
  const auto found = in_flight_.find(ticket.id);
  std::unique_ptr<MpiTransfer> transfer = std::move(found->second);
  in_flight_.erase(found);
  transfer = finish(std::move(transfer));
  if (transfer->sum.count > 0) {
    sum_incoming(*transfer, transfer->sum);
  }
}

std::unique_ptr<MpiTransfer> MpiCommunicator::begin(const Call& call) {
  require<CommunicationError>(failure_.empty(), failure_);
  const CallShape shape = shape_of(call, size_);
  ++next_sequence_;
  if (options_.check_shapes && size_ > 1) {
    compare_shapes(shape);
  }
  auto transfer = std::make_unique<MpiTransfer>();
  transfer->what = join("operation ", next_sequence_ - 1, " (", describe(shape), ")");
  return transfer;
}

void MpiCommunicator::compare_shapes(const CallShape& shape) {
  const auto ranks = static_cast<size_t>(size_);
  const std::vector<PayloadRecord> mine = to_records(shape, ranks);
  const size_t bytes = mine.size() * sizeof(PayloadRecord);
  auto transfer = std::make_unique<MpiTransfer>();
  transfer->what =
      join("operation ", next_sequence_ - 1, " (", describe(shape), "), comparison of the ranks");
  transfer->outgoing.resize(bytes);
  transfer->incoming.resize(bytes * ranks);
  std::memcpy(transfer->outgoing.data(), mine.data(), bytes);
  const void* out = transfer->outgoing.data();
  void* in = transfer->incoming.data();
  transfer = finish(post_all_gather(std::move(transfer), out, in, static_cast<int64_t>(bytes)));
  std::vector<PayloadRecord> all(mine.size() * ranks);
  std::memcpy(all.data(), transfer->incoming.data(), transfer->incoming.size());
  std::vector<CallShape> shapes;
  for (size_t r = 0; r < ranks; ++r) {
    shapes.push_back(from_records(&all[r * mine.size()], ranks));
  }
  const std::string difference = disagreement(shapes);
  if (!difference.empty()) {
    failure_ = join("operation ", next_sequence_ - 1, ": ", difference);
    throw CommunicationError(failure_);
  }
}

std::unique_ptr<MpiTransfer> MpiCommunicator::post_all_gather(std::unique_ptr<MpiTransfer> transfer,
                                                              const void* send, void* receive,
                                                              int64_t bytes) {
  MpiTransfer& t = *transfer;
  t.bytes = bytes * size_;
  const MpiBytes& shard = t.types.emplace_back(bytes, options_.largest_count);
  t.requests.push_back(MPI_REQUEST_NULL);
  const int code = MPI_Iallgather(send, shard.count(), shard.type(), receive, shard.count(),
                                  shard.type(), comm_, &t.requests.back());
  if (code != MPI_SUCCESS) {
    fail(std::move(transfer), join("MPI_Iallgather: ", mpi_error_text(code)));
  }
  return transfer;
}

std::unique_ptr<MpiTransfer> MpiCommunicator::post_all_to_all(std::unique_ptr<MpiTransfer> transfer,
                                                              const void* send, int64_t bytes) {
  MpiTransfer& t = *transfer;
  t.bytes = bytes * size_;
  t.incoming.resize(static_cast<size_t>(t.bytes));
  const MpiBytes& slice = t.types.emplace_back(bytes, options_.largest_count);
  t.requests.push_back(MPI_REQUEST_NULL);
  const int code = MPI_Ialltoall(send, slice.count(), slice.type(), t.incoming.data(),
                                 slice.count(), slice.type(), comm_, &t.requests.back());
  if (code != MPI_SUCCESS) {
    fail(std::move(transfer), join("MPI_Ialltoall: ", mpi_error_text(code)));
  }
  return transfer;
}

Ticket MpiCommunicator::keep(std::unique_ptr<MpiTransfer> transfer) {
  const int64_t id = next_sequence_ - 1;
  in_flight_[id] = std::move(transfer);
  return {id};
}

std::unique_ptr<MpiTransfer> MpiCommunicator::finish(std::unique_ptr<MpiTransfer> transfer) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + options_.time_limit;
  const int requests = static_cast<int>(transfer->requests.size());
  std::chrono::microseconds pause{0};
  while (true) {
    int complete = 0;
    std::vector<MPI_Status> statuses(transfer->requests.size());
    const int code = MPI_Testall(requests, transfer->requests.data(), &complete, statuses.data());
    if (code != MPI_SUCCESS) {
      int first = code;
      for (const MPI_Status& status : statuses) {
        if (code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS) {
          first = status.MPI_ERROR;
        }
      }
      fail(std::move(transfer), mpi_error_text(first));
    }
    if (complete != 0) {
      transfer->requests.clear();
      transfer->types.clear();
      return transfer;
    }
    if (Clock::now() > deadline) {
      fail(std::move(transfer), join("not complete after ", options_.time_limit.count(),
                                     " ms; a peer is missing or late"));
    }
    // Short at first, since most transfers are; then the core is left to the peers.
    std::this_thread::sleep_for(pause);
    pause = std::min(pause + std::chrono::microseconds{2}, std::chrono::microseconds{500});
  }
}

void MpiCommunicator::fail(std::unique_ptr<MpiTransfer> transfer, const std::string& reason) {
  failure_ = join("rank ", rank_, ": ", transfer->what, ", ", transfer->bytes, " bytes: ", reason);
  abandon(std::move(transfer));
  throw CommunicationError(failure_);
}

void MpiCommunicator::sum_incoming(MpiTransfer& transfer, const Payload& sum) const {
  std::vector<void*> parts;
  parts.reserve(static_cast<size_t>(size_));
  for (int r = 0; r < size_; ++r) {
    parts.push_back(transfer.incoming.data() + r * sum.bytes());
  }
  rank_order_sum(*sum.type, sum.data, parts, sum.count);
}

}  // namespace bdlm
