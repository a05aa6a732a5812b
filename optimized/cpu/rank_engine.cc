#include "optimized/cpu/rank_engine.h"

#include <algorithm>
#include <limits>

#include "optimized/cpu/attention_backward.h"
#include "optimized/cpu/attention_forward.h"
#include "optimized/cpu/merge.h"
#include "optimized/cpu/row_passes.h"
#include "reference/base/error.h"
#include "reference/layout/row_copy.h"

namespace bdlm::cpu {
namespace {

/// What storage holds before it is written: whatever reads it shows in the result.
constexpr float poison = std::numeric_limits<float>::quiet_NaN();

Payload payload(Floats& data) {
  return {data.data(), std::ssize(data), element_type<float>()};
}

/// These rows of two arrays, the second ones `stride` rows behind the first.
void take_pair(const RowSet& rows, const RowSet& storage, int64_t width, const Floats& a,
               const Floats& b, int64_t stride, float* to) {
  require<LogicError>(rows.size() <= stride, "a shard of ", rows.size(), " rows is padded to ",
                      stride);
  pack_rows(rows, storage, width, a.data(), to);
  pack_rows(rows, storage, width, b.data(), to + stride * width);
}

}  // namespace

RankEngine::RankEngine(const RankPlan& plan, const AttentionShape& shape, float scale)
    : plan_(plan), shape_(shape), scale_(scale) {
  shape_.rows = plan.rows.size();
  require<LogicError>(
      !plan.buffers.empty() && plan.buffers[0].size() == plan.rows.size() && plan.states >= 1,
      "a plan needs a state, and a buffer 0 that holds the rank's rows");
}

void RankEngine::load(Floats q, Floats k, Floats v) {
  q_ = std::move(q);
  k_.clear();
  v_.clear();
  for (const RowSet& buffer : plan_.buffers) {
    k_.emplace_back(k_.empty() ? 0 : buffer.size() * kv_width(), poison);
    v_.push_back(k_.back());
  }
  k_[0] = std::move(k);
  v_[0] = std::move(v);
  o_.assign(plan_.states, Floats(q_.size(), 0.0F));
  lse_.assign(plan_.states, Floats(shape_.rows * shape_.q_heads, -infinity));
}

void RankEngine::load_gradient(Floats d_o) {
  d_o_ = std::move(d_o);
  dq_.assign(q_.size(), 0.0F);
  dk_.clear();
  for (const RowSet& buffer : plan_.buffers) {
    dk_.emplace_back(buffer.size() * kv_width(), 0.0F);
  }
  dv_ = dk_;
}

AttentionProblem RankEngine::problem(const Interval& rows, const std::vector<int64_t>& intervals,
                                     int buffer, int state) {
  const int64_t heads = shape_.q_heads;
  const int64_t d = shape_.head_dim;
  const int64_t keys = plan_.buffers.at(buffer).size();
  const auto rows_of = [&](Floats& data) {
    return TensorView(data.data() + rows.begin * q_width(), {rows.size(), heads, d});
  };
  AttentionProblem p;
  p.shape = shape_;
  p.shape.rows = rows.size();
  p.scale = scale_;
  p.q = rows_of(q_);
  p.key_set_count = 1;
  p.key_sets[0].k = TensorView(k_[buffer].data(), {keys, shape_.kv_heads, d});
  p.key_sets[0].v = TensorView(v_[buffer].data(), {keys, shape_.kv_heads, d});
  p.key_sets[0].intervals = intervals.data();
  p.o = rows_of(o_.at(state));
  p.lse = TensorView(lse_[state].data() + rows.begin * heads, {rows.size(), heads});
  return p;
}

void RankEngine::attend(const Attend& step) {
  for (const RowPass& pass : row_passes(step.bands, plan_.rows, plan_.buffers.at(step.buffer))) {
    AttentionProblem p = problem(pass.rows, pass.intervals, step.buffer, step.state);
    p.o_state = p.o;
    p.lse_state = p.lse;
    attention_forward(p);
  }
}

void RankEngine::merge(const Merge& step) {
  const int64_t d = shape_.head_dim;
  Floats& o = o_.at(step.into);
  Floats& lse = lse_.at(step.into);
  const Floats& from = o_.at(step.from);
  for (int64_t i = 0; i < std::ssize(lse); ++i) {
    merge_row(d, o.data() + i * d, lse[i], from.data() + i * d, lse_[step.from][i],
              o.data() + i * d, &lse[i]);
  }
}

void RankEngine::attend_backward(const AttendBackward& step) {
  const int64_t heads = shape_.q_heads;
  for (const RowPass& pass : row_passes(step.bands, plan_.rows, plan_.buffers.at(step.buffer))) {
    AttentionProblem p = problem(pass.rows, pass.intervals, step.buffer, 0);
    Floats& dk = dk_[step.buffer];
    Floats& dv = dv_[step.buffer];
    Floats part_dk(dk.size());
    Floats part_dv(dv.size());
    const int64_t keys = p.key_sets[0].size();
    p.key_sets[0].dk = TensorView(part_dk.data(), {keys, shape_.kv_heads, shape_.head_dim});
    p.key_sets[0].dv = TensorView(part_dv.data(), {keys, shape_.kv_heads, shape_.head_dim});
    const int64_t first = pass.rows.begin * q_width();
    p.d_o = TensorView(d_o_.data() + first, {pass.rows.size(), heads, shape_.head_dim});
    p.dq = TensorView(dq_.data() + first, {pass.rows.size(), heads, shape_.head_dim});
    p.dq_state = p.dq;
    attention_backward(p);
    for (size_t i = 0; i < dk.size(); ++i) {
      dk[i] += part_dk[i];
      dv[i] += part_dv[i];
    }
  }
}

RankEngine::Buffers& RankEngine::start(int token, size_t messages) {
  const auto [it, fresh] = transfers_.try_emplace(token);
  require<LogicError>(fresh, "token ", token, " is packed twice");
  it->second.send.resize(messages);
  it->second.receive.resize(messages);
  return it->second;
}

CollectiveTransfer RankEngine::pack(const Gather& step) {
  const int64_t shard = 2 * step.padded_rows * kv_width();
  Buffers& t = start(step.token, 1);
  t.send[0].assign(shard, 0.0F);
  t.receive[0].assign(shard * plan_.ranks, poison);
  take_pair(step.shards->at(plan_.rank), plan_.rows, kv_width(), k_[0], v_[0], step.padded_rows,
            t.send[0].data());
  return {payload(t.send[0]), payload(t.receive[0])};
}

void RankEngine::unpack(const Gather& step) {
  const RowSet& buffer = plan_.buffers.at(step.buffer);
  const int64_t part = step.padded_rows * kv_width();
  const float* from = transfers_.at(step.token).receive[0].data();
  for (int rank = 0; rank < plan_.ranks; ++rank, from += 2 * part) {
    unpack_rows(step.shards->at(rank), buffer, kv_width(), from, k_[step.buffer].data());
    unpack_rows(step.shards->at(rank), buffer, kv_width(), from + part, v_[step.buffer].data());
  }
  transfers_.erase(step.token);
}

CollectiveTransfer RankEngine::pack(const ReduceScatter& step) {
  const int64_t shard = 2 * step.padded_rows * kv_width();
  Buffers& t = start(step.token, 1);
  t.send[0].assign(shard * plan_.ranks, 0.0F);
  t.receive[0].assign(shard, poison);
  for (int rank = 0; rank < plan_.ranks; ++rank) {
    take_pair(step.shards->at(rank), plan_.buffers.at(step.buffer), kv_width(), dk_[step.buffer],
              dv_[step.buffer], step.padded_rows, t.send[0].data() + rank * shard);
  }
  return {payload(t.send[0]), payload(t.receive[0])};
}

void RankEngine::unpack(const ReduceScatter& step) {
  const RowSet& own = step.shards->at(plan_.rank);
  const float* from = transfers_.at(step.token).receive[0].data();
  add_rows(own, plan_.rows, kv_width(), from, dk_[0].data());
  add_rows(own, plan_.rows, kv_width(), from + step.padded_rows * kv_width(), dv_[0].data());
  transfers_.erase(step.token);
}

template <class ExchangeStep>
ExchangeTransfer RankEngine::pack_messages(const ExchangeStep& step, const RowSet& storage,
                                           const Floats& k, const Floats& v) {
  Buffers& t = start(step.token, std::max(step.sends.size(), step.receives.size()));
  ExchangeTransfer ends;
  for (size_t m = 0; m < step.sends.size(); ++m) {
    const RowSet& rows = step.sends[m].rows;
    t.send[m].resize(2 * rows.size() * kv_width());
    take_pair(rows, storage, kv_width(), k, v, rows.size(), t.send[m].data());
    ends.sends.push_back({step.sends[m].peer, payload(t.send[m])});
  }
  for (size_t m = 0; m < step.receives.size(); ++m) {
    t.receive[m].assign(2 * step.receives[m].rows.size() * kv_width(), poison);
    ends.receives.push_back({step.receives[m].peer, payload(t.receive[m])});
  }
  return ends;
}

ExchangeTransfer RankEngine::pack(const Exchange& step) {
  return pack_messages(step, plan_.rows, k_[0], v_[0]);
}

ExchangeTransfer RankEngine::pack(const ExchangeBack& step) {
  return pack_messages(step, plan_.buffers.at(step.buffer), dk_[step.buffer], dv_[step.buffer]);
}

void RankEngine::unpack(const Exchange& step) {
  const RowSet& buffer = plan_.buffers.at(step.buffer);
  for (size_t m = 0; m < step.receives.size(); ++m) {
    const RowSet& rows = step.receives[m].rows;
    const float* from = transfers_.at(step.token).receive[m].data();
    unpack_rows(rows, buffer, kv_width(), from, k_[step.buffer].data());
    unpack_rows(rows, buffer, kv_width(), from + rows.size() * kv_width(), v_[step.buffer].data());
  }
  transfers_.erase(step.token);
}

void RankEngine::unpack(const ExchangeBack& step) {
  for (size_t m = 0; m < step.receives.size(); ++m) {
    const RowSet& rows = step.receives[m].rows;
    const float* from = transfers_.at(step.token).receive[m].data();
    add_rows(rows, plan_.rows, kv_width(), from, dk_[0].data());
    add_rows(rows, plan_.rows, kv_width(), from + rows.size() * kv_width(), dv_[0].data());
  }
  transfers_.erase(step.token);
}

}  // namespace bdlm::cpu
