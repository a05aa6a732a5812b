#include "conformance/plugin/calls.h"

#include <algorithm>
#include <utility>

#include "conformance/plugin/call_frame.h"
#include "reference/base/error.h"

namespace bdlm {
namespace {

/// What another call continues from: fp32, or f64 where the backend accumulates in f64.
Dtype sum_dtype(const Contract& contract) {
  return contract.accumulate == Dtype::f64 ? Dtype::f64 : Dtype::fp32;
}

/// Names of the second key set's tensors differ from those of the first one.
std::string numbered(const char* name, size_t set, size_t sets) {
  return sets < 2 ? name : join(name, " of key set ", set);
}

/// A call's arguments that both directions share, in guarded host memory.
struct AttentionArrays {
  const bdlm_layout* layout = nullptr;
  const bdlm_tensor* q = nullptr;
  const bdlm_segment* segments = nullptr;
  std::vector<bdlm_keys> keys;  // not guarded yet
};

std::vector<bdlm_segment> plugin_segments(const RowSet& rows) {
  std::vector<bdlm_segment> out;
  for (const Segment& segment : rows.segments()) {
    out.push_back({segment.stream == Stream::clean ? BDLM_CLEAN : BDLM_CORRUPTED, 0,
                   segment.rows.begin, segment.rows.size()});
  }
  return out;
}

const bdlm_layout* plugin_layout(CallTensors& tensors, const Sequence& sequence,
                                 const LayerRule& rule) {
  std::vector<int64_t> blocks, documents{0};
  for (int64_t b = 0; b < sequence.blocks(); ++b) {
    blocks.push_back(sequence.block(b).begin);
  }
  blocks.push_back(sequence.length());
  for (const Interval& document : sequence.documents()) {
    require(document.begin == documents.back(), "a document begins at ", document.begin,
            "; in a plug-in's layout it begins where the one before ends, at ", documents.back());
    documents.push_back(document.end);
  }
  bdlm_layout layout{};
  layout.length = sequence.length();
  layout.blocks = sequence.blocks();
  layout.block_start = tensors.host_array("layout.block_start", blocks);
  layout.documents = static_cast<int64_t>(documents.size()) - 1;
  layout.document_start = tensors.host_array("layout.document_start", documents);
  layout.window = rule.window;
  layout.clean_rule = rule.clean == CleanRule::block_causal ? BDLM_BLOCK_CAUSAL : BDLM_TOKEN_CAUSAL;
  return tensors.host_array("layout", std::vector<bdlm_layout>{layout});
}

void check_call(const AttentionCall& call) {
  const int64_t row = call.shape.q_heads * call.shape.head_dim;
  const int64_t key = call.shape.kv_heads * call.shape.head_dim;
  require<LogicError>(static_cast<int64_t>(call.q.size()) == call.rows.size() * row,
                      "a call has q of another size than its rows");
  require<LogicError>(call.key_sets.size() <= 2, "a call has more than two key sets");
  for (const CallKeys& keys : call.key_sets) {
    const auto size = static_cast<size_t>(keys.rows.size() * key);
    require<LogicError>(keys.k.size() == size && keys.v.size() == size &&
                            static_cast<int64_t>(keys.intervals.size()) == call.rows.size(),
                        "a call's key set has k, v or intervals of another size than its rows");
    require<LogicError>(
        keys.rows.rows(Stream::clean).empty() || keys.rows.rows(Stream::corrupted).empty(),
        "a call's key set holds both streams");
  }
}

AttentionArrays attention_arrays(CallTensors& tensors, const Contract& contract,
                                 const AttentionCall& call) {
  check_call(call);
  const auto [q_heads, kv_heads, head_dim] = call.shape;
  AttentionArrays out;
  out.layout = plugin_layout(tensors, call.sequence, call.rule);
  out.q = tensors.input("q", call.q, contract.input, {call.rows.size(), q_heads, head_dim});
  out.segments = tensors.host_array("segments", plugin_segments(call.rows));
  const size_t sets = call.key_sets.size();
  for (size_t s = 0; s < sets; ++s) {
    const CallKeys& from = call.key_sets[s];
    const std::vector<int64_t> shape{from.rows.size(), kv_heads, head_dim};
    std::vector<int64_t> intervals;
    for (const Interval& interval : from.intervals) {
      intervals.insert(intervals.end(), {interval.begin, interval.end});
    }
    bdlm_keys keys{};
    keys.k = tensors.input(numbered("k", s, sets), from.k, contract.input, shape);
    keys.v = tensors.input(numbered("v", s, sets), from.v, contract.input, shape);
    keys.segment_count = static_cast<int64_t>(from.rows.segments().size());
    keys.segments =
        tensors.host_array(numbered("key segments", s, sets), plugin_segments(from.rows));
    keys.intervals = tensors.host_array(numbered("intervals", s, sets), intervals);
    out.keys.push_back(keys);
  }
  return out;
}

/// What the arguments of both directions have; the key sets are complete.
template <class Args>
Args common_args(CallTensors& tensors, const AttentionCall& call, const AttentionArrays& arrays) {
  Args args{};
  args.size = sizeof args;
  args.layout = arrays.layout;
  args.scale = call.scale;
  args.q = arrays.q;
  args.segment_count = static_cast<int64_t>(call.rows.segments().size());
  args.segments = arrays.segments;
  args.key_set_count = static_cast<int64_t>(arrays.keys.size());
  args.key_sets = tensors.host_array("key sets", arrays.keys);
  return args;
}

}  // namespace

AttentionForwardResult call_attention(const Backend& backend, const AttentionCall& call,
                                      const AttentionState* state, Stage stage,
                                      const CallOptions& options) {
  AttentionForwardResult out;
  const bdlm_backend& entries = backend.entries();
  const Contract& contract = backend.contract();
  out.status = run_call(backend, entries.attention, options, out.violation, [&](CallFrame& frame) {
    CallTensors& tensors = frame.tensors;
    const AttentionArrays arrays = attention_arrays(tensors, contract, call);
    const int64_t rows = call.rows.size();
    const std::vector<int64_t> o_shape{rows, call.shape.q_heads, call.shape.head_dim};
    const std::vector<int64_t> lse_shape{rows, call.shape.q_heads};
    const Dtype o_dtype = stage == Stage::final ? contract.o : contract.partial_o;
    auto args = common_args<bdlm_attention_args>(tensors, call, arrays);
    if (state != nullptr && options.in_place && o_dtype == contract.partial_o) {
      args.o = tensors.in_out("o", state->o, o_dtype, o_shape);
      args.lse = tensors.in_out("lse", state->lse, contract.lse, lse_shape);
      args.o_state = args.o;
      args.lse_state = args.lse;
    } else {
      if (state != nullptr) {
        args.o_state = tensors.input("o_state", state->o, contract.partial_o, o_shape);
        args.lse_state = tensors.input("lse_state", state->lse, contract.lse, lse_shape);
      }
      args.o = tensors.output("o", o_dtype, o_shape);
      args.lse = tensors.output("lse", contract.lse, lse_shape);
    }
    frame.make(args, entries.attention_workspace, entries.attention);
    frame.results([&] { out.out = {tensors.read(args.o), tensors.read(args.lse)}; });
  });
  return out;
}

AttentionBackwardResult call_attention_backward(const Backend& backend, const AttentionCall& call,
                                                const AttentionState& merged,
                                                const std::vector<double>& d_o,
                                                const std::vector<double>* dq_state, Stage stage,
                                                const CallOptions& options) {
  AttentionBackwardResult out;
  const bdlm_backend& entries = backend.entries();
  const Contract& contract = backend.contract();
  const auto backward = [&](CallFrame& frame) {
    CallTensors& tensors = frame.tensors;
    AttentionArrays arrays = attention_arrays(tensors, contract, call);
    const int64_t rows = call.rows.size();
    const std::vector<int64_t> shape{rows, call.shape.q_heads, call.shape.head_dim};
    const Dtype sum = sum_dtype(contract);
    const Dtype gradient = stage == Stage::final ? contract.gradient : sum;
    const size_t sets = arrays.keys.size();
    for (size_t s = 0; s < sets; ++s) {
      const std::vector<int64_t> key_shape{call.key_sets[s].rows.size(), call.shape.kv_heads,
                                           call.shape.head_dim};
      arrays.keys[s].dk = tensors.output(numbered("dk", s, sets), gradient, key_shape);
      arrays.keys[s].dv = tensors.output(numbered("dv", s, sets), gradient, key_shape);
    }
    auto args = common_args<bdlm_attention_backward_args>(tensors, call, arrays);
    args.o = tensors.input("o", merged.o, contract.o, shape);
    args.lse = tensors.input("lse", merged.lse, contract.lse, {rows, call.shape.q_heads});
    args.d_o = tensors.input("d_o", d_o, contract.input, shape);
    if (dq_state != nullptr && options.in_place && gradient == sum) {
      args.dq = tensors.in_out("dq", *dq_state, gradient, shape);
      args.dq_state = args.dq;
    } else {
      if (dq_state != nullptr) {
        args.dq_state = tensors.input("dq_state", *dq_state, sum, shape);
      }
      args.dq = tensors.output("dq", gradient, shape);
    }
    frame.make(args, entries.attention_backward_workspace, entries.attention_backward);
    frame.results([&] {
      out.dq = tensors.read(args.dq);
      for (const bdlm_keys& keys : arrays.keys) {
        out.gradients.push_back({tensors.read(keys.dk), tensors.read(keys.dv)});
      }
    });
  };
  out.status = run_call(backend, entries.attention_backward, options, out.violation, backward);
  return out;
}

AttentionForwardResult call_merge(const Backend& backend, int64_t heads, int64_t head_dim,
                                  const AttentionState& a, const AttentionState& b,
                                  const CallOptions& options) {
  AttentionForwardResult out;
  const bdlm_backend& entries = backend.entries();
  const Contract& contract = backend.contract();
  out.status = run_call(backend, entries.merge, options, out.violation, [&](CallFrame& frame) {
    CallTensors& tensors = frame.tensors;
    const auto rows = static_cast<int64_t>(a.lse.size()) / heads;
    const std::vector<int64_t> o_shape{rows, heads, head_dim};
    const std::vector<int64_t> lse_shape{rows, heads};
    bdlm_merge_args args{};
    args.size = sizeof args;
    args.o_b = tensors.input("o_b", b.o, contract.partial_o, o_shape);
    args.lse_b = tensors.input("lse_b", b.lse, contract.lse, lse_shape);
    if (options.in_place) {
      args.o = tensors.in_out("o", a.o, contract.partial_o, o_shape);
      args.lse = tensors.in_out("lse", a.lse, contract.lse, lse_shape);
      args.o_a = args.o;
      args.lse_a = args.lse;
    } else {
      args.o_a = tensors.input("o_a", a.o, contract.partial_o, o_shape);
      args.lse_a = tensors.input("lse_a", a.lse, contract.lse, lse_shape);
      args.o = tensors.output("o", contract.partial_o, o_shape);
      args.lse = tensors.output("lse", contract.lse, lse_shape);
    }
    frame.make(args, NoWorkspace<bdlm_merge_args>{nullptr}, entries.merge);
    frame.results([&] { out.out = {tensors.read(args.o), tensors.read(args.lse)}; });
  });
  return out;
}

CrossEntropyResult call_cross_entropy(const Backend& backend, const CrossEntropyCall& call,
                                      const CallOptions& options) {
  CrossEntropyResult out;
  const bdlm_backend& entries = backend.entries();
  const Contract& contract = backend.contract();
  const auto loss = [&](CallFrame& frame) {
    CallTensors& tensors = frame.tensors;
    const auto rows = static_cast<int64_t>(call.labels.size());
    const std::vector<int64_t> hidden{rows, call.hidden_size};
    const std::vector<int64_t> head{call.vocab, call.hidden_size};
    bdlm_cross_entropy_args args{};
    args.size = sizeof args;
    args.hidden = tensors.input("hidden", call.hidden, contract.input, hidden);
    args.head = tensors.input("head", call.head, contract.input, head);
    args.labels = tensors.input("labels", std::span<const int64_t>(call.labels), {rows});
    args.row_weights = tensors.input("row_weights", call.row_weights, Dtype::fp32, {rows});
    args.softcap = call.softcap;
    args.excluded = call.excluded;
    args.upstream = call.upstream;
    args.row_loss = tensors.output("row_loss", contract.lse, {rows});
    args.d_hidden = tensors.output("d_hidden", contract.gradient, hidden);
    args.d_head = tensors.output("d_head", sum_dtype(contract), head);
    frame.make(args, entries.cross_entropy_workspace, entries.cross_entropy);
    frame.results([&] {
      out.row_loss = tensors.read(args.row_loss);
      out.d_hidden = tensors.read(args.d_hidden);
      out.d_head = tensors.read(args.d_head);
    });
  };
  out.status = run_call(backend, entries.cross_entropy, options, out.violation, loss);
  return out;
}

}  // namespace bdlm
