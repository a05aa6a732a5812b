#include "conformance/suites/backend_engine.h"

#include <algorithm>
#include <limits>

#include "conformance/suites/backend_failure.h"
#include "reference/base/special_values.h"
#include "reference/layout/row_copy.h"
#include "reference/schedule/plan_calls.h"

namespace bdlm {
namespace {

/// Rows of `all`, which holds `storage`'s, `width` a row.
std::vector<double> pick(const RowSet& rows, const RowSet& storage, int64_t width,
                         const std::vector<double>& all) {
  std::vector<double> out(rows.size() * width);
  pack_rows(rows, storage, width, all.data(), out.data());
  return out;
}

template <class StepKind>
std::vector<const StepKind*> steps_of(const std::vector<Step>& steps) {
  std::vector<const StepKind*> out;
  for (const Step& step : steps) {
    if (const auto* kind = std::get_if<StepKind>(&step)) {
      out.push_back(kind);
    }
  }
  return out;
}

/// The keys of buffer 0 to whose gradients others' parts are added.
RowSet returned_rows(const RankPlan& plan) {
  RowSet out;
  for (const auto* reduce : steps_of<ReduceScatter>(plan.backward)) {
    out = unite(out, reduce->shards->at(plan.rank));
  }
  for (const auto* back : steps_of<ExchangeBack>(plan.backward)) {
    for (const Message& message : back->receives) {
      out = unite(out, message.rows);
    }
  }
  return out;
}

bool overlap(const RowSet& a, const RowSet& b) {
  return subtract(a, b).size() < a.size();
}

/// The keys that the bands name.
RowSet keys_of(std::span<const Band> bands) {
  std::array<std::vector<Interval>, 2> keys;
  for (const Band& band : bands) {
    for (int64_t row = band.rows.begin; row < band.rows.end; ++row) {
      keys[static_cast<int>(band.key_stream)].push_back(band.keys_of(row));
    }
  }
  return {unite(keys[1]), unite(keys[0])};
}

}  // namespace

BackendEngine::BackendEngine(BackendLayer& layer, const RankPlan& plan)
    : layer_(layer), plan_(plan) {
  const bool pass_through = site_unit(contract(), contract().partial_o) == 0;
  const auto attends = steps_of<Attend>(plan.forward);
  RowSet done;
  for (size_t i = attends.size(); i-- > 0;) {
    RowSet mine;
    if (attends[i]->state == 0) {
      const bool last = i + 1 == attends.size();
      mine = pass_through ? (last ? plan.rows : RowSet()) : rows_of(attends[i]->bands);
      if (i == 0) {
        // Rows that see nothing at all are written by the first one.
        mine = pass_through ? mine : plan.rows;
      }
      mine = subtract(mine, done);
      done = unite(done, mine);
    }
    finished_by_.push_back(mine);
  }
  std::reverse(finished_by_.begin(), finished_by_.end());

  const auto backwards = steps_of<AttendBackward>(plan.backward);
  const RowSet returned = returned_rows(plan);
  for (size_t i = 0; i < backwards.size(); ++i) {
    const RowSet rows = rows_of(backwards[i]->bands);
    const RowSet keys = keys_of(backwards[i]->bands);
    bool alone = backwards[i]->buffer == 0 && !overlap(keys, returned);
    for (size_t j = 0; j < backwards.size(); ++j) {
      const bool same_keys =
          j != i && backwards[j]->buffer == 0 && overlap(keys, keys_of(backwards[j]->bands));
      const bool more_rows = j > i && overlap(rows, rows_of(backwards[j]->bands));
      alone = alone && !same_keys && !more_rows;
    }
    finishes_.push_back(alone);
  }
}

void BackendEngine::load(const std::vector<double>& q, const std::vector<double>& k,
                         const std::vector<double>& v) {
  q_ = q;
  keys_.clear();
  values_.clear();
  for (const RowSet& buffer : plan_.buffers) {
    keys_.emplace_back(buffer.size() * kv_width(), nan_value);
  }
  values_ = keys_;
  keys_[0] = k;
  values_[0] = v;
  const int64_t rows = plan_.rows.size();
  states_.assign(plan_.states, {std::vector<double>(rows * q_width(), 0),
                                std::vector<double>(rows * layer_.shape.q_heads,
                                                    -std::numeric_limits<double>::infinity())});
  attends_ = 0;
}

void BackendEngine::load_gradient(const std::vector<double>& d_o) {
  d_o_ = d_o;
  dq_.assign(q_.size(), 0);
  has_dq_.assign(plan_.rows.size(), 0);
  d_keys_.clear();
  for (const RowSet& buffer : plan_.buffers) {
    d_keys_.emplace_back(buffer.size() * kv_width(), 0);
  }
  d_values_ = d_keys_;
  backwards_ = 0;
}

AttentionCall BackendEngine::call_of(const RowSet& rows) const {
  AttentionCall call;
  call.sequence = layer_.sequence;
  call.rule = layer_.rule;
  call.shape = layer_.shape;
  call.scale = layer_.scale;
  call.rows = rows;
  call.q = pick(rows, plan_.rows, q_width(), q_);
  return call;
}

AttentionState BackendEngine::state_of(int state, const RowSet& rows) const {
  return {pick(rows, plan_.rows, q_width(), states_.at(state).o),
          pick(rows, plan_.rows, layer_.shape.q_heads, states_[state].lse)};
}

void BackendEngine::attend(const Attend& step) {
  const RowSet finished = finished_by_.at(attends_++);
  const RowSet partial = subtract(rows_of(step.bands), finished);
  if (partial.size() > 0) {
    attend_rows(step, partial, Stage::partial);
  }
  if (finished.size() > 0) {
    attend_rows(step, finished, Stage::final);
  }
}

void BackendEngine::attend_rows(const Attend& step, const RowSet& rows, Stage stage) {
  const RowSet& buffer = plan_.buffers.at(step.buffer);
  const std::vector<PlanCall> calls = plan_calls(step.bands, rows, buffer);
  AttentionState state = state_of(step.state, rows);
  // What no earlier step attended is (0, -inf), the identity.
  bool from_state = step.from_state || attends_ > 1;
  for (size_t c = 0; c < calls.size(); ++c) {
    AttentionCall call = call_of(rows);
    for (const PlanKeys& keys : calls[c].keys) {
      call.key_sets.push_back({keys.rows, pick(keys.rows, buffer, kv_width(), keys_[step.buffer]),
                               pick(keys.rows, buffer, kv_width(), values_[step.buffer]),
                               keys.intervals});
    }
    const Stage here = c + 1 == calls.size() ? stage : Stage::partial;
    const std::lock_guard<std::mutex> lock(layer_.mutex);
    AttentionForwardResult result =
        call_attention(layer_.backend, call, from_state ? &state : nullptr, here, layer_.options);
    require_call("attention", result.status, result.violation);
    state = std::move(result.out);
    from_state = true;
  }
  unpack_rows(rows, plan_.rows, q_width(), state.o.data(), states_[step.state].o.data());
  unpack_rows(rows, plan_.rows, layer_.shape.q_heads, state.lse.data(),
              states_[step.state].lse.data());
}

void BackendEngine::merge(const Merge& step) {
  const std::lock_guard<std::mutex> lock(layer_.mutex);
  AttentionForwardResult result =
      call_merge(layer_.backend, layer_.shape.q_heads, layer_.shape.head_dim, states_.at(step.into),
                 states_.at(step.from), layer_.options);
  require_call("merge", result.status, result.violation);
  states_[step.into] = std::move(result.out);
}

void BackendEngine::attend_backward(const AttendBackward& step) {
  const bool finishes = finishes_.at(backwards_++);
  const RowSet& buffer = plan_.buffers.at(step.buffer);
  const RowSet rows = rows_of(step.bands);
  const std::vector<PlanCall> calls = plan_calls(step.bands, rows, buffer);
  const Stage stage = finishes && calls.size() == 1 ? Stage::final : Stage::partial;
  for (const PlanCall& part : calls) {
    AttentionCall call = call_of(rows);
    for (const PlanKeys& keys : part.keys) {
      call.key_sets.push_back({keys.rows, pick(keys.rows, buffer, kv_width(), keys_[step.buffer]),
                               pick(keys.rows, buffer, kv_width(), values_[step.buffer]),
                               keys.intervals});
    }
    bool from_state = false;
    for_each_run(rows, plan_.rows, [&](int64_t, int64_t stored, int64_t count) {
      for (int64_t i = stored; i < stored + count; ++i) {
        from_state = from_state || has_dq_[i] != 0;
        has_dq_[i] = 1;
      }
    });
    const std::vector<double> before = pick(rows, plan_.rows, q_width(), dq_);
    AttentionBackwardResult result;
    {
      const std::lock_guard<std::mutex> lock(layer_.mutex);
      result = call_attention_backward(layer_.backend, call, state_of(0, rows),
                                       pick(rows, plan_.rows, q_width(), d_o_),
                                       from_state ? &before : nullptr, stage, layer_.options);
    }
    require_call("attention_backward", result.status, result.violation);
    unpack_rows(rows, plan_.rows, q_width(), result.dq.data(), dq_.data());
    for (size_t k = 0; k < call.key_sets.size(); ++k) {
      add_gradients(call.key_sets[k].rows, step.buffer, result.gradients.at(k));
    }
  }
}

void BackendEngine::add_gradients(const RowSet& keys, int buffer, const KeyGradients& gradients) {
  add(keys, plan_.buffers[buffer], gradients.dk.data(), d_keys_[buffer]);
  add(keys, plan_.buffers[buffer], gradients.dv.data(), d_values_[buffer]);
}

void BackendEngine::add(const RowSet& rows, const RowSet& storage, const double* what,
                        std::vector<double>& to) const {
  const int64_t width = kv_width();
  for_each_run(rows, storage, [&](int64_t index, int64_t stored, int64_t count) {
    for (int64_t i = 0; i < count * width; ++i) {
      double& sum = to[stored * width + i];
      sum = round_to(sum + what[index * width + i], contract().accumulate);
    }
  });
}

std::vector<double> BackendEngine::finished(std::vector<double> gradient) const {
  for (double& x : gradient) {
    x = round_to(x, contract().gradient);
  }
  return gradient;
}

BackendEngine::Transfer& BackendEngine::start(int token, size_t messages) {
  const auto [it, fresh] = transfers_.try_emplace(token);
  require<LogicError>(fresh, "token ", token, " is packed twice");
  it->second.send.resize(messages);
  it->second.receive.resize(messages);
  return it->second;
}

// A shard travels as its K rows, padding, its V rows, padding; so do gradients and messages.

CollectiveTransfer BackendEngine::pack(const Gather& step) {
  const RowSet& own = step.shards->at(plan_.rank);
  Transfer& t = start(step.token, 1);
  t.send[0].assign(shard_size(step), nan_value);
  t.receive[0].assign(shard_size(step) * plan_.ranks, nan_value);
  pack_rows(own, plan_.rows, kv_width(), keys_[0].data(), t.send[0].data());
  pack_rows(own, plan_.rows, kv_width(), values_[0].data(),
            t.send[0].data() + shard_size(step) / 2);
  const ElementType* type = number_type(contract().input);
  return {{t.send[0].data(), shard_size(step), type},
          {t.receive[0].data(), shard_size(step) * plan_.ranks, type}};
}

void BackendEngine::unpack(const Gather& step) {
  const std::vector<double>& received = transfers_.at(step.token).receive[0];
  const RowSet& buffer = plan_.buffers.at(step.buffer);
  for (int r = 0; r < plan_.ranks; ++r) {
    const double* shard = received.data() + r * shard_size(step);
    unpack_rows(step.shards->at(r), buffer, kv_width(), shard, keys_[step.buffer].data());
    unpack_rows(step.shards->at(r), buffer, kv_width(), shard + shard_size(step) / 2,
                values_[step.buffer].data());
  }
  transfers_.erase(step.token);
}

CollectiveTransfer BackendEngine::pack(const ReduceScatter& step) {
  const RowSet& buffer = plan_.buffers.at(step.buffer);
  Transfer& t = start(step.token, 0);
  std::vector<double> shard(shard_size(step));
  for (int r = 0; r < plan_.ranks; ++r) {
    // Padding takes part in the sum as zeros.
    std::fill(shard.begin(), shard.end(), 0);
    pack_rows(step.shards->at(r), buffer, kv_width(), d_keys_[step.buffer].data(), shard.data());
    pack_rows(step.shards->at(r), buffer, kv_width(), d_values_[step.buffer].data(),
              shard.data() + shard_size(step) / 2);
    for (const double x : shard) {
      t.send_parts.push_back({x});
    }
  }
  t.receive_parts.resize(shard_size(step));
  const ElementType* type = rank_parts_type(contract().reduce);
  return {{t.send_parts.data(), shard_size(step) * plan_.ranks, type},
          {t.receive_parts.data(), shard_size(step), type}};
}

void BackendEngine::unpack(const ReduceScatter& step) {
  std::vector<double> shard;
  for (const RankParts& parts : transfers_.at(step.token).receive_parts) {
    shard.push_back(reduce(contract(), parts, plan_.rank));
  }
  const RowSet& own = step.shards->at(plan_.rank);
  add(own, plan_.rows, shard.data(), d_keys_[0]);
  add(own, plan_.rows, shard.data() + shard_size(step) / 2, d_values_[0]);
  transfers_.erase(step.token);
}

template <class ExchangeStep>
ExchangeTransfer BackendEngine::pack_messages(const ExchangeStep& step, const RowSet& storage,
                                              const std::vector<double>& keys,
                                              const std::vector<double>& values, Dtype dtype) {
  Transfer& t = start(step.token, std::max(step.sends.size(), step.receives.size()));
  const auto payload = [&](std::vector<double>& data) {
    return Payload{data.data(), static_cast<int64_t>(data.size()), number_type(dtype)};
  };
  ExchangeTransfer ends;
  for (size_t m = 0; m < step.sends.size(); ++m) {
    const RowSet& rows = step.sends[m].rows;
    t.send[m].resize(2 * rows.size() * kv_width());
    pack_rows(rows, storage, kv_width(), keys.data(), t.send[m].data());
    pack_rows(rows, storage, kv_width(), values.data(),
              t.send[m].data() + rows.size() * kv_width());
    for (double& x : t.send[m]) {
      x = round_to(x, dtype);
    }
    ends.sends.push_back({step.sends[m].peer, payload(t.send[m])});
  }
  for (size_t m = 0; m < step.receives.size(); ++m) {
    t.receive[m].resize(2 * step.receives[m].rows.size() * kv_width(), nan_value);
    ends.receives.push_back({step.receives[m].peer, payload(t.receive[m])});
  }
  return ends;
}

ExchangeTransfer BackendEngine::pack(const Exchange& step) {
  return pack_messages(step, plan_.rows, keys_[0], values_[0], contract().input);
}

ExchangeTransfer BackendEngine::pack(const ExchangeBack& step) {
  return pack_messages(step, plan_.buffers.at(step.buffer), d_keys_[step.buffer],
                       d_values_[step.buffer], contract().reduce);
}

void BackendEngine::unpack(const Exchange& step) {
  const RowSet& buffer = plan_.buffers.at(step.buffer);
  for (size_t m = 0; m < step.receives.size(); ++m) {
    const RowSet& rows = step.receives[m].rows;
    const double* data = transfers_.at(step.token).receive[m].data();
    unpack_rows(rows, buffer, kv_width(), data, keys_[step.buffer].data());
    unpack_rows(rows, buffer, kv_width(), data + rows.size() * kv_width(),
                values_[step.buffer].data());
  }
  transfers_.erase(step.token);
}

void BackendEngine::unpack(const ExchangeBack& step) {
  for (size_t m = 0; m < step.receives.size(); ++m) {
    const RowSet& rows = step.receives[m].rows;
    const double* data = transfers_.at(step.token).receive[m].data();
    add(rows, plan_.rows, data, d_keys_[0]);
    add(rows, plan_.rows, data + rows.size() * kv_width(), d_values_[0]);
  }
  transfers_.erase(step.token);
}

}  // namespace bdlm
