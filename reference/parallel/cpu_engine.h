#pragma once
// The engine that computes a rank program on the CPU, in any scalar.

#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "reference/base/error.h"
#include "reference/layout/row_copy.h"
#include "reference/math/attention.h"
#include "reference/math/merge.h"
#include "reference/parallel/engine_factory.h"
#include "reference/parallel/key_passes.h"
#include "reference/schedule/engine.h"

namespace bdlm {

/// What storage holds before it is written, and padding on the wire: a NaN where T has one, so that
/// whatever reads it shows in the result.
template <class T>
T poison() {
  if constexpr (std::numeric_limits<T>::has_quiet_NaN) {
    return T(std::numeric_limits<T>::quiet_NaN());
  } else {
    return T(1000000007);
  }
}

/// One attention layer of one rank. R is the number of the rank's rows, N_b that of buffer b's.
///
///   load(q, k, v); run(plan.forward, engine, ...);  output(), lse()
///   load_gradient(d_o); run(plan.backward, engine, ...);  dq(), dk(), dv()
///
/// Every part is virtual, so that a test may get one of them wrong.
template <class T>
class CpuEngine : public Engine {
 public:
  /// Keeps a reference to `plan`.
  CpuEngine(const RankPlan& plan, const AttentionShape& shape, T scale,
            const AttentionOptions& options = {})
      : plan_(plan), shape_(shape), scale_(scale), options_(options) {
    require<LogicError>(
        !plan.buffers.empty() && plan.buffers[0].size() == plan.rows.size() && plan.states >= 1,
        "a plan needs a state, and a buffer 0 that holds the rank's rows");
  }

  /// q (R, Hq, D), k and v (R, Hkv, D).
  virtual void load(const T* q, const T* k, const T* v) {
    const int64_t rows = plan_.rows.size();
    q_.assign(q, q + rows * q_width());
    keys_.assign(plan_.buffers.size(), {});
    values_.assign(plan_.buffers.size(), {});
    for (size_t b = 1; b < plan_.buffers.size(); ++b) {
      keys_[b].assign(plan_.buffers[b].size() * kv_width(), poison<T>());
      values_[b] = keys_[b];
    }
    keys_[0].assign(k, k + rows * kv_width());
    values_[0].assign(v, v + rows * kv_width());
    o_.assign(plan_.states, std::vector<T>(rows * q_width(), T(0)));
    lse_.assign(plan_.states, std::vector<T>(rows * shape_.q_heads, LogDomain<T>::empty()));
  }

  /// d_o (R, Hq, D). Clears all gradients.
  virtual void load_gradient(const T* d_o) {
    d_o_.assign(d_o, d_o + plan_.rows.size() * q_width());
    dq_.assign(d_o_.size(), T(0));
    d_keys_.clear();
    for (const RowSet& buffer : plan_.buffers) {
      d_keys_.emplace_back(buffer.size() * kv_width(), T(0));
    }
    d_values_ = d_keys_;
  }

  /// (R, Hq, D) and (R, Hq): the merged state 0.
  virtual const std::vector<T>& output() const { return o_[0]; }
  virtual const std::vector<T>& lse() const { return lse_[0]; }
  /// (R, Hq, D), (R, Hkv, D), (R, Hkv, D).
  virtual const std::vector<T>& dq() const { return dq_; }
  virtual const std::vector<T>& dk() const { return d_keys_[0]; }
  virtual const std::vector<T>& dv() const { return d_values_[0]; }

  void attend(const Attend& step) override {
    const RowSet& buffer = plan_.buffers.at(step.buffer);
    for (const KeyPass& pass : key_passes(step.bands, plan_.rows, buffer)) {
      attend_pass(pass, step.buffer, step.state);
    }
  }

  void merge(const Merge& step) override {
    merge_rows<T>(plan_.rows.size() * shape_.q_heads, shape_.head_dim, o_.at(step.into).data(),
                  lse_[step.into].data(), o_.at(step.from).data(), lse_[step.from].data());
  }

  void attend_backward(const AttendBackward& step) override {
    const RowSet& buffer = plan_.buffers.at(step.buffer);
    for (const KeyPass& pass : key_passes(step.bands, plan_.rows, buffer)) {
      attend_pass_backward(pass, step.buffer);
    }
  }

  // A shard travels as its K rows, padding, its V rows, padding; so do gradients and messages.

  CollectiveTransfer pack(const Gather& step) override {
    const RowSet& own = step.shards->at(plan_.rank);
    Buffers& t = start(step.token, 1);
    t.send[0].assign(shard_size(step), poison<T>());
    t.receive[0].assign(shard_size(step) * plan_.ranks, poison<T>());
    pack_pair(own, plan_.rows, keys_[0], values_[0], step.padded_rows, t.send[0].data());
    return {payload(t.send[0]), payload(t.receive[0])};
  }

  void unpack(const Gather& step) override {
    const std::vector<T>& received = transfers_.at(step.token).receive[0];
    const RowSet& buffer = plan_.buffers.at(step.buffer);
    for (int r = 0; r < plan_.ranks; ++r) {
      const T* shard = received.data() + r * shard_size(step);
      unpack_rows(step.shards->at(r), buffer, kv_width(), shard, keys_[step.buffer].data());
      unpack_rows(step.shards->at(r), buffer, kv_width(), shard + shard_size(step) / 2,
                  values_[step.buffer].data());
    }
    transfers_.erase(step.token);
  }

  /// Padding takes part in the sum as zeros.
  CollectiveTransfer pack(const ReduceScatter& step) override {
    const RowSet& buffer = plan_.buffers.at(step.buffer);
    Buffers& t = start(step.token, 1);
    t.send[0].assign(shard_size(step) * plan_.ranks, T(0));
    t.receive[0].assign(shard_size(step), poison<T>());
    for (int r = 0; r < plan_.ranks; ++r) {
      pack_pair(step.shards->at(r), buffer, d_keys_[step.buffer], d_values_[step.buffer],
                step.padded_rows, t.send[0].data() + r * shard_size(step));
    }
    return {payload(t.send[0]), payload(t.receive[0])};
  }

  void unpack(const ReduceScatter& step) override {
    const T* shard = transfers_.at(step.token).receive[0].data();
    const RowSet& own = step.shards->at(plan_.rank);
    add_rows(own, plan_.rows, kv_width(), shard, d_keys_[0].data());
    add_rows(own, plan_.rows, kv_width(), shard + shard_size(step) / 2, d_values_[0].data());
    transfers_.erase(step.token);
  }

  ExchangeTransfer pack(const Exchange& step) override {
    return pack_messages(step, plan_.rows, keys_[0], values_[0]);
  }

  void unpack(const Exchange& step) override {
    const RowSet& buffer = plan_.buffers.at(step.buffer);
    for (size_t m = 0; m < step.receives.size(); ++m) {
      const RowSet& rows = step.receives[m].rows;
      const T* data = transfers_.at(step.token).receive[m].data();
      unpack_rows(rows, buffer, kv_width(), data, keys_[step.buffer].data());
      unpack_rows(rows, buffer, kv_width(), data + rows.size() * kv_width(),
                  values_[step.buffer].data());
    }
    transfers_.erase(step.token);
  }

  ExchangeTransfer pack(const ExchangeBack& step) override {
    return pack_messages(step, plan_.buffers.at(step.buffer), d_keys_[step.buffer],
                         d_values_[step.buffer]);
  }

  void unpack(const ExchangeBack& step) override {
    for (size_t m = 0; m < step.receives.size(); ++m) {
      const RowSet& rows = step.receives[m].rows;
      const T* data = transfers_.at(step.token).receive[m].data();
      add_rows(rows, plan_.rows, kv_width(), data, d_keys_[0].data());
      add_rows(rows, plan_.rows, kv_width(), data + rows.size() * kv_width(), d_values_[0].data());
    }
    transfers_.erase(step.token);
  }

 protected:
  /// The pass's rows over keys of `buffer`, merged into `state`.
  virtual void attend_pass(const KeyPass& pass, int buffer, int state) {
    const int64_t first = pass.rows.begin;
    attention_forward<T>(shape_, scale_, pass.keys, q_.data() + first * q_width(),
                         keys_[buffer].data(), values_[buffer].data(),
                         o_.at(state).data() + first * q_width(),
                         lse_[state].data() + first * shape_.q_heads, options_);
  }

  /// Adds the pass's share to dQ and to the gradients of `buffer`.
  virtual void attend_pass_backward(const KeyPass& pass, int buffer) {
    const int64_t first = pass.rows.begin;
    attention_backward<T>(shape_, scale_, pass.keys, q_.data() + first * q_width(),
                          keys_[buffer].data(), values_[buffer].data(),
                          o_[0].data() + first * q_width(), lse_[0].data() + first * shape_.q_heads,
                          d_o_.data() + first * q_width(), dq_.data() + first * q_width(),
                          d_keys_[buffer].data(), d_values_[buffer].data(), options_);
  }

  /// The ends of one transfer, by message; a collective has one.
  struct Buffers {
    std::vector<std::vector<T>> send, receive;
  };

  int64_t q_width() const { return shape_.q_heads * shape_.head_dim; }
  int64_t kv_width() const { return shape_.kv_heads * shape_.head_dim; }

  /// Elements of one rank's padded K and V.
  template <class CollectiveStep>
  int64_t shard_size(const CollectiveStep& step) const {
    return 2 * step.padded_rows * kv_width();
  }

  Buffers& start(int token, size_t messages) {
    const auto [it, fresh] = transfers_.try_emplace(token);
    require<LogicError>(fresh, "token ", token, " is packed twice");
    it->second.send.resize(messages);
    it->second.receive.resize(messages);
    return it->second;
  }

  static Payload payload(std::vector<T>& data) {
    return {data.data(), static_cast<int64_t>(data.size()), element_type<T>()};
  }

  /// The rows of two arrays, the second one `stride` rows behind the first.
  void pack_pair(const RowSet& rows, const RowSet& storage, const std::vector<T>& keys,
                 const std::vector<T>& values, int64_t stride, T* dst) const {
    require<LogicError>(rows.size() <= stride, "a shard of ", rows.size(), " rows is padded to ",
                        stride);
    pack_rows(rows, storage, kv_width(), keys.data(), dst);
    pack_rows(rows, storage, kv_width(), values.data(), dst + stride * kv_width());
  }

  template <class ExchangeStep>
  ExchangeTransfer pack_messages(const ExchangeStep& step, const RowSet& storage,
                                 const std::vector<T>& keys, const std::vector<T>& values) {
    Buffers& t = start(step.token, std::max(step.sends.size(), step.receives.size()));
    ExchangeTransfer ends;
    for (size_t m = 0; m < step.sends.size(); ++m) {
      const RowSet& rows = step.sends[m].rows;
      t.send[m].resize(2 * rows.size() * kv_width(), T(0));
      pack_pair(rows, storage, keys, values, rows.size(), t.send[m].data());
      ends.sends.push_back({step.sends[m].peer, payload(t.send[m])});
    }
    for (size_t m = 0; m < step.receives.size(); ++m) {
      t.receive[m].resize(2 * step.receives[m].rows.size() * kv_width(), poison<T>());
      ends.receives.push_back({step.receives[m].peer, payload(t.receive[m])});
    }
    return ends;
  }

  const RankPlan& plan_;
  AttentionShape shape_;
  T scale_;
  AttentionOptions options_;
  std::vector<T> q_, d_o_, dq_;                    // (R, Hq, D)
  std::vector<std::vector<T>> keys_, values_;      // by buffer (N_b, Hkv, D)
  std::vector<std::vector<T>> d_keys_, d_values_;  // the same
  std::vector<std::vector<T>> o_;                  // by state (R, Hq, D)
  std::vector<std::vector<T>> lse_;                // by state (R, Hq)
  std::map<int, Buffers> transfers_;               // by token
};

/// The engine that `factory` makes, or where it is empty a CpuEngine.
template <class T>
std::unique_ptr<CpuEngine<T>> make_engine(const EngineFactory<T>& factory, const RankPlan& plan,
                                          const AttentionShape& shape, const T& scale,
                                          const AttentionOptions& options) {
  return factory ? factory(plan, shape, scale, options)
                 : std::make_unique<CpuEngine<T>>(plan, shape, scale, options);
}

}  // namespace bdlm
