#include "optimized/distributed/rank_engine.h"

#include <algorithm>
#include <utility>

#include "optimized/distributed/call_arguments.h"
#include "reference/base/error.h"
#include "reference/layout/row_copy.h"

namespace bdlm::distributed {
namespace {

const char* at(const void* data, int64_t bytes) {
  return static_cast<const char*>(data) + bytes;
}

/// The index, among Attend and Merge steps, of the last one that writes state 0.
int64_t last_writer(const std::vector<Step>& steps) {
  int64_t index = -1;
  int64_t last = -1;
  for (const Step& step : steps) {
    if (const auto* attend = std::get_if<Attend>(&step)) {
      ++index;
      last = attend->state == 0 ? index : last;
    } else if (const auto* merge = std::get_if<Merge>(&step)) {
      ++index;
      last = merge->into == 0 ? index : last;
    }
  }
  return last;
}

/// From the first to the last row that sees a key.
Interval covering(const PlanCall& call) {
  Interval rows{call.rows.size(), 0};
  for (const PlanKeys& keys : call.keys) {
    for (int64_t row = 0; row < call.rows.size(); ++row) {
      if (!keys.intervals[row].empty()) {
        rows.begin = std::min(rows.begin, row);
        rows.end = std::max(rows.end, row + 1);
      }
    }
  }
  return rows.begin < rows.end ? rows : Interval{};
}

Stream stream_of(const PlanKeys& keys) {
  return keys.rows.segments().at(0).stream;
}

/// Where a stream's rows begin in a buffer: corrupted ones come first.
int64_t offset_in(const RowSet& buffer, Stream stream) {
  return stream == Stream::clean ? size(buffer.rows(Stream::corrupted)) : 0;
}

}  // namespace

/// What the arguments of both entries have in common.
class RankEngine::Call {
 public:
  Call(RankEngine& engine, const PlanCall& call, int buffer, const Interval& rows)
      : engine_(engine), arguments_(engine.memory_.device()), rows_(rows) {
    const RowSet& held = engine.plan_.buffers.at(buffer);
    const Pair& pair = engine.keys_.at(buffer);
    const Format input = engine.formats().input;
    for (const PlanKeys& keys : call.keys) {
      const int64_t first = offset_in(held, stream_of(keys)) * engine.row_bytes(input);
      const std::vector<bdlm_segment>& segments =
          arguments_.segments(keys.rows, 0, keys.rows.size());
      bdlm_keys out{};
      out.k = keys_tensor(bdlm::distributed::at(pair.k, first), input, keys.rows.size());
      out.v = keys_tensor(bdlm::distributed::at(pair.v, first), input, keys.rows.size());
      out.segment_count = static_cast<int64_t>(segments.size());
      out.segments = segments.data();
      out.intervals = arguments_.intervals(keys.intervals, rows.begin, rows.size());
      keys_.push_back(out);
    }
  }

  template <class Args>
  Args args() {
    const std::vector<bdlm_segment>& segments =
        arguments_.segments(engine_.plan_.rows, rows_.begin, rows_.size());
    Args args{};
    args.size = sizeof(Args);
    args.layout = arguments_.layout(engine_.layer_.sequence, engine_.layer_.rule);
    args.scale = engine_.layer_.scale;
    args.q = rows_tensor(engine_.q_, engine_.formats().input);
    args.segment_count = static_cast<int64_t>(segments.size());
    args.segments = segments.data();
    args.key_set_count = static_cast<int64_t>(keys_.size());
    args.key_sets = keys_.data();
    args.stream = engine_.memory_.stream();
    return args;
  }

  /// The call's rows of (R, Hq, D), or of (R, Hq).
  bdlm_tensor* rows_tensor(const void* data, Format dtype) {
    const Layer& layer = engine_.layer_;
    return arguments_.tensor(
        data == nullptr
            ? nullptr
            : bdlm::distributed::at(data, rows_.begin * engine_.q_width() * size_of(dtype)),
        dtype, {rows_.size(), layer.q_heads, layer.head_dim});
  }
  bdlm_tensor* row_numbers(const void* data) {
    const Format dtype = engine_.formats().lse;
    const int64_t heads = engine_.layer_.q_heads;
    return arguments_.tensor(
        data == nullptr ? nullptr
                        : bdlm::distributed::at(data, rows_.begin * heads * size_of(dtype)),
        dtype, {rows_.size(), heads});
  }
  bdlm_tensor* keys_tensor(const void* data, Format dtype, int64_t count) {
    const Layer& layer = engine_.layer_;
    return arguments_.tensor(data, dtype, {count, layer.kv_heads, layer.head_dim});
  }
  std::vector<bdlm_keys>& keys() { return keys_; }

 private:
  RankEngine& engine_;
  CallArguments arguments_;
  Interval rows_;
  std::vector<bdlm_keys> keys_;
};

RankEngine::RankEngine(const Entries& entries, Memory& memory, const Layer& layer,
                       const RankPlan& plan)
    : entries_(entries),
      memory_(memory),
      layer_(layer),
      plan_(plan),
      last_writer_(last_writer(plan.forward)) {
  require<LogicError>(
      !plan.buffers.empty() && plan.buffers[0].size() == plan.rows.size() && plan.states >= 1,
      "a plan needs a state, and a buffer 0 that holds the rank's rows");
  const bdlm_backend& b = *entries.backend;
  require(b.attention != nullptr && b.attention_backward != nullptr && b.merge != nullptr,
          "backend ", b.name, " lacks attention, attention_backward or merge");
}

void RankEngine::load(const void* q, const void* k, const void* v) {
  q_ = q;
  keys_.clear();
  keys_.resize(plan_.buffers.size());
  keys_[0].k = k;
  keys_[0].v = v;
  for (size_t b = 1; b < keys_.size(); ++b) {
    Pair& pair = keys_[b];
    for (Block* block : {&pair.own_k, &pair.own_v}) {
      *block = Block(memory_, plan_.buffers[b].size() * row_bytes(formats().input));
      memory_.fill(block->data(), nan_byte, block->bytes());
    }
    pair.k = pair.own_k.data();
    pair.v = pair.own_v.data();
  }
  const int64_t rows = plan_.rows.size();
  states_.clear();
  for (int s = 0; s < plan_.states; ++s) {
    states_.push_back({Block(memory_, rows * q_width() * size_of(formats().sum)),
                       Block(memory_, rows * layer_.q_heads * size_of(formats().lse))});
  }
  output_ = Block(memory_, rows * q_width() * size_of(formats().o));
  steps_ = 0;
}

void RankEngine::load_gradient(const void* d_o) {
  d_o_ = d_o;
  dq_ = Block(memory_, plan_.rows.size() * q_width() * size_of(formats().sum));
  memory_.fill(dq_.data(), 0, dq_.bytes());
  dq_begun_ = false;
  gradients_.clear();
  for (const RowSet& buffer : plan_.buffers) {
    Gradient gradient;
    for (Block* block : {&gradient.dk, &gradient.dv}) {
      *block = Block(memory_, buffer.size() * row_bytes(formats().sum));
      memory_.fill(block->data(), 0, block->bytes());
    }
    gradients_.push_back(std::move(gradient));
  }
}

void RankEngine::finish_gradients() {
  const Format out = formats().gradient;
  const auto finish = [&](const Block& sum, Block& to) {
    const int64_t count = sum.bytes() / size_of(formats().sum);
    to = Block(memory_, count * size_of(out));
    memory_.convert(to.data(), out, sum.data(), formats().sum, count);
  };
  finish(dq_, finished_dq_);
  finish(gradients_[0].dk, finished_dk_);
  finish(gradients_[0].dv, finished_dv_);
}

void RankEngine::check(const char* entry, bdlm_status status) const {
  if (status != BDLM_OK) {
    const bdlm_backend& b = *entries_.backend;
    throw EntryError(join(b.name, ": ", entry, " returned ", static_cast<int>(status), ": ",
                          b.last_error(entries_.context)));
  }
}

template <class Args>
void RankEngine::call_entry(const char* entry, bdlm_status (*query)(void*, const Args*, uint64_t*),
                            bdlm_status (*run)(void*, const Args*), Args& args) {
  if (query != nullptr) {
    check(entry, query(entries_.context, &args, &args.workspace_bytes));
    const auto bytes = static_cast<int64_t>(args.workspace_bytes);
    if (workspace_.bytes() < bytes) {
      workspace_ = Block(memory_, bytes);
    }
    args.workspace = workspace_.data();
  }
  check(entry, run(entries_.context, &args));
}

void RankEngine::attend(const Attend& step) {
  State& state = states_.at(step.state);
  const bool writes_output = step.state == 0 && steps_ == last_writer_;
  ++steps_;
  const Interval all{0, plan_.rows.size()};
  const std::vector<PlanCall> calls =
      plan_calls(step.bands, plan_.rows, plan_.buffers.at(step.buffer));
  for (size_t c = 0; c < calls.size(); ++c) {
    const bool finishes = writes_output && c + 1 == calls.size();
    // The first call gives every row a state; the last hands every row out.
    const Interval rows = state.begun && !finishes ? covering(calls[c]) : all;
    if (!rows.empty()) {
      attend_rows(calls[c], step.buffer, state, rows, finishes);
    }
  }
}

void RankEngine::attend_rows(const PlanCall& call, int buffer, State& state, const Interval& rows,
                             bool finishes) {
  Call tensors(*this, call, buffer, rows);
  auto args = tensors.args<bdlm_attention_args>();
  if (state.begun) {
    args.o_state = tensors.rows_tensor(state.o.data(), formats().sum);
    args.lse_state = tensors.row_numbers(state.lse.data());
  }
  args.o = finishes ? tensors.rows_tensor(output_.data(), formats().o)
                    : tensors.rows_tensor(state.o.data(), formats().sum);
  args.lse = tensors.row_numbers(state.lse.data());
  call_entry("attention", entries_.backend->attention_workspace, entries_.backend->attention, args);
  state.begun = true;
}

void RankEngine::merge(const Merge& step) {
  State& into = states_.at(step.into);
  const State& from = states_.at(step.from);
  const bool writes_output = step.into == 0 && steps_ == last_writer_;
  ++steps_;
  require<LogicError>(into.begun && from.begun, "a state is merged that holds nothing yet");
  const int64_t rows = plan_.rows.size();
  CallArguments arguments(memory_.device());
  const std::vector<int64_t> of_o{rows, layer_.q_heads, layer_.head_dim};
  const std::vector<int64_t> of_lse{rows, layer_.q_heads};
  bdlm_merge_args args{};
  args.size = sizeof args;
  args.o_a = arguments.tensor(into.o.data(), formats().sum, of_o);
  args.lse_a = arguments.tensor(into.lse.data(), formats().lse, of_lse);
  args.o_b = arguments.tensor(from.o.data(), formats().sum, of_o);
  args.lse_b = arguments.tensor(from.lse.data(), formats().lse, of_lse);
  args.o = arguments.tensor(into.o.data(), formats().sum, of_o);
  args.lse = arguments.tensor(into.lse.data(), formats().lse, of_lse);
  args.stream = memory_.stream();
  check("merge", entries_.backend->merge(entries_.context, &args));
  if (writes_output) {
    memory_.convert(output_.data(), formats().o, into.o.data(), formats().sum, rows * q_width());
  }
}

void RankEngine::attend_backward(const AttendBackward& step) {
  for (const PlanCall& call : plan_calls(step.bands, plan_.rows, plan_.buffers.at(step.buffer))) {
    const Interval rows = dq_begun_ ? covering(call) : Interval{0, plan_.rows.size()};
    if (!rows.empty()) {
      differentiate_rows(call, step.buffer, rows);
    }
  }
}

void RankEngine::differentiate_rows(const PlanCall& call, int buffer, const Interval& rows) {
  Call tensors(*this, call, buffer, rows);
  Gradient& sums = gradients_.at(buffer);
  // The entry overwrites dK and dV: what already holds a sum gets its part added.
  struct Part {
    Block dk, dv;
    int64_t first = 0;
  };
  std::vector<Part> parts;
  for (size_t s = 0; s < call.keys.size(); ++s) {
    const Stream stream = stream_of(call.keys[s]);
    const int64_t count = call.keys[s].rows.size();
    const int64_t first = offset_in(plan_.buffers[buffer], stream) * row_bytes(formats().sum);
    bool& begun = sums.begun[static_cast<int>(stream)];
    char* dk = sums.dk.at(first);
    char* dv = sums.dv.at(first);
    if (begun) {
      parts.push_back({Block(memory_, count * row_bytes(formats().sum)),
                       Block(memory_, count * row_bytes(formats().sum)), first});
      dk = parts.back().dk.at(0);
      dv = parts.back().dv.at(0);
    }
    begun = true;
    tensors.keys()[s].dk = tensors.keys_tensor(dk, formats().sum, count);
    tensors.keys()[s].dv = tensors.keys_tensor(dv, formats().sum, count);
  }
  auto args = tensors.args<bdlm_attention_backward_args>();
  args.o = tensors.rows_tensor(output_.data(), formats().o);
  args.lse = tensors.row_numbers(states_[0].lse.data());
  args.d_o = tensors.rows_tensor(d_o_, formats().input);
  args.dq_state = dq_begun_ ? tensors.rows_tensor(dq_.data(), formats().sum) : nullptr;
  args.dq = tensors.rows_tensor(dq_.data(), formats().sum);
  call_entry("attention_backward", entries_.backend->attention_backward_workspace,
             entries_.backend->attention_backward, args);
  dq_begun_ = true;
  for (const Part& part : parts) {
    memory_.add(sums.dk.at(part.first), part.dk.data(), part.dk.bytes() / size_of(formats().sum),
                formats().sum);
    memory_.add(sums.dv.at(part.first), part.dv.data(), part.dv.bytes() / size_of(formats().sum),
                formats().sum);
  }
}

}  // namespace bdlm::distributed
