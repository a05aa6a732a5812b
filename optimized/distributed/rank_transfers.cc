// What a rank sends and what becomes of what it receives.

#include <algorithm>

#include "optimized/distributed/rank_engine.h"
#include "reference/base/error.h"
#include "reference/layout/row_copy.h"

namespace bdlm::distributed {
RankEngine::Transfer& RankEngine::start(int token, size_t messages) {
  const auto [it, fresh] = transfers_.try_emplace(token);
  require<LogicError>(fresh, "token ", token, " is packed twice");
  it->second.send.resize(messages);
  it->second.receive.resize(messages);
  return it->second;
}

Payload RankEngine::payload(const Block& block, Format dtype) const {
  return {block.data(), block.bytes() / size_of(dtype), memory_.element(dtype)};
}

void RankEngine::take_pair(const RowSet& rows, const RowSet& storage, Format dtype, const void* a,
                           const void* b, int64_t stride, char* to) {
  require<LogicError>(rows.size() <= stride, "a shard of ", rows.size(), " rows is padded to ",
                      stride);
  const int64_t width = row_bytes(dtype);
  for_each_run(rows, storage, [&](int64_t index, int64_t stored, int64_t count) {
    const auto* from_a = static_cast<const char*>(a) + stored * width;
    const auto* from_b = static_cast<const char*>(b) + stored * width;
    memory_.copy(to + index * width, from_a, count * width);
    memory_.copy(to + (stride + index) * width, from_b, count * width);
  });
}

void RankEngine::put_pair(const RowSet& rows, int buffer, int64_t stride, const char* from) {
  const int64_t width = row_bytes(formats().input);
  Pair& to = keys_.at(buffer);
  for_each_run(rows, plan_.buffers[buffer], [&](int64_t index, int64_t stored, int64_t count) {
    memory_.copy(to.own_k.at(stored * width), from + index * width, count * width);
    memory_.copy(to.own_v.at(stored * width), from + (stride + index) * width, count * width);
  });
}

void RankEngine::add_pair(const RowSet& rows, int64_t stride, const char* from) {
  const int64_t width = row_bytes(formats().sum);
  Gradient& to = gradients_[0];
  for_each_run(rows, plan_.rows, [&](int64_t index, int64_t stored, int64_t count) {
    memory_.add(to.dk.at(stored * width), from + index * width, count * kv_width(), formats().sum);
    memory_.add(to.dv.at(stored * width), from + (stride + index) * width, count * kv_width(),
                formats().sum);
  });
}

CollectiveTransfer RankEngine::pack(const Gather& step) {
  const Format input = formats().input;
  const int64_t shard = 2 * step.padded_rows * row_bytes(input);
  Transfer& t = start(step.token, 1);
  t.send[0] = Block(memory_, shard);
  t.receive[0] = Block(memory_, shard * plan_.ranks);
  memory_.fill(t.send[0].data(), nan_byte, t.send[0].bytes());
  memory_.fill(t.receive[0].data(), nan_byte, t.receive[0].bytes());
  take_pair(step.shards->at(plan_.rank), plan_.rows, input, keys_[0].k, keys_[0].v,
            step.padded_rows, t.send[0].at(0));
  memory_.synchronize();
  return {payload(t.send[0], input), payload(t.receive[0], input)};
}

void RankEngine::unpack(const Gather& step) {
  const int64_t shard = 2 * step.padded_rows * row_bytes(formats().input);
  const Block& received = transfers_.at(step.token).receive[0];
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    put_pair(step.shards->at(rank), step.buffer, step.padded_rows, received.at(rank * shard));
  }
  memory_.synchronize();
  transfers_.erase(step.token);
}

CollectiveTransfer RankEngine::pack(const ReduceScatter& step) {
  const int64_t shard = 2 * step.padded_rows * row_bytes(formats().sum);
  const Gradient& sums = gradients_.at(step.buffer);
  Transfer& t = start(step.token, 1);
  t.send[0] = Block(memory_, shard * plan_.ranks);
  t.receive[0] = Block(memory_, shard);
  // Padding takes part in the sum.
  memory_.fill(t.send[0].data(), 0, t.send[0].bytes());
  memory_.fill(t.receive[0].data(), nan_byte, t.receive[0].bytes());
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    take_pair(step.shards->at(rank), plan_.buffers.at(step.buffer), formats().sum, sums.dk.data(),
              sums.dv.data(), step.padded_rows, t.send[0].at(rank * shard));
  }
  memory_.synchronize();
  return {payload(t.send[0], formats().sum), payload(t.receive[0], formats().sum)};
}

void RankEngine::unpack(const ReduceScatter& step) {
  add_pair(step.shards->at(plan_.rank), step.padded_rows,
           transfers_.at(step.token).receive[0].at(0));
  memory_.synchronize();
  transfers_.erase(step.token);
}

template <class ExchangeStep>
ExchangeTransfer RankEngine::pack_messages(const ExchangeStep& step, const RowSet& storage,
                                           Format dtype, const void* a, const void* b) {
  Transfer& t = start(step.token, std::max(step.sends.size(), step.receives.size()));
  ExchangeTransfer ends;
  for (size_t m = 0; m < step.sends.size(); ++m) {
    const RowSet& rows = step.sends[m].rows;
    t.send[m] = Block(memory_, 2 * rows.size() * row_bytes(dtype));
    take_pair(rows, storage, dtype, a, b, rows.size(), t.send[m].at(0));
    ends.sends.push_back({step.sends[m].peer, payload(t.send[m], dtype)});
  }
  for (size_t m = 0; m < step.receives.size(); ++m) {
    t.receive[m] = Block(memory_, 2 * step.receives[m].rows.size() * row_bytes(dtype));
    memory_.fill(t.receive[m].data(), nan_byte, t.receive[m].bytes());
    ends.receives.push_back({step.receives[m].peer, payload(t.receive[m], dtype)});
  }
  memory_.synchronize();
  return ends;
}

ExchangeTransfer RankEngine::pack(const Exchange& step) {
  return pack_messages(step, plan_.rows, formats().input, keys_[0].k, keys_[0].v);
}

ExchangeTransfer RankEngine::pack(const ExchangeBack& step) {
  const Gradient& sums = gradients_.at(step.buffer);
  return pack_messages(step, plan_.buffers.at(step.buffer), formats().sum, sums.dk.data(),
                       sums.dv.data());
}

void RankEngine::unpack(const Exchange& step) {
  for (size_t m = 0; m < step.receives.size(); ++m) {
    const RowSet& rows = step.receives[m].rows;
    put_pair(rows, step.buffer, rows.size(), transfers_.at(step.token).receive[m].at(0));
  }
  memory_.synchronize();
  transfers_.erase(step.token);
}

void RankEngine::unpack(const ExchangeBack& step) {
  for (size_t m = 0; m < step.receives.size(); ++m) {
    const RowSet& rows = step.receives[m].rows;
    add_pair(rows, rows.size(), transfers_.at(step.token).receive[m].at(0));
  }
  memory_.synchronize();
  transfers_.erase(step.token);
}

}  // namespace bdlm::distributed
