#include "conformance/suites/wide_call.h"

#include <algorithm>

#include "conformance/plugin/calls.h"
#include "conformance/suites/backend_failure.h"
#include "conformance/suites/hygiene_calls.h"
#include "conformance/suites/same_bits.h"
#include "conformance/suites/wide_tensors.h"

namespace bdlm {
namespace {

CaseResult skipped(const std::string& why) {
  CaseResult result;
  result.verdict = Verdict::skipped;
  result.detail = why;
  return result;
}

/// Clean rows 0 to 2, block by block of one token.
AttentionCall three_rows(const WholeCall& whole, const AttentionShape& shape) {
  AttentionCall call = whole.call;
  const int64_t half = WideTensors::rows * shape.q_heads * shape.head_dim;
  call.rows = RowSet({}, {{0, WideTensors::rows}});
  call.q.erase(call.q.begin(), call.q.begin() + half);
  call.key_sets.resize(1);
  call.key_sets[0].intervals.erase(call.key_sets[0].intervals.begin(),
                                   call.key_sets[0].intervals.begin() + WideTensors::rows);
  return call;
}

}  // namespace

CaseResult wide_attention(const Backend& backend, int64_t head_dim) {
  const AttentionShape shape{2, 1, head_dim};
  const bdlm_backend& entries = backend.entries();
  const Contract& contract = backend.contract();
  const WholeCall whole = whole_call(Sequence::uniform(WideTensors::rows, 1),
                                     {CleanRule::token_causal, 0}, shape, contract, 6);
  const AttentionCall call = three_rows(whole, shape);
  const std::vector<double> d_o(whole.d_o.end() - static_cast<int64_t>(call.q.size()),
                                whole.d_o.end());
  const AttentionForwardResult near = call_attention(backend, call, nullptr, Stage::final);
  require_call("attention", near.status, near.violation);
  const AttentionBackwardResult near_back =
      call_attention_backward(backend, call, near.out, d_o, nullptr, Stage::final);
  require_call("attention_backward", near_back.status, near_back.violation);

  const auto formats = {contract.input, contract.o, contract.lse, contract.gradient};
  WideTensors wide(backend,
                   size_of(*std::max_element(formats.begin(), formats.end(), [](Dtype a, Dtype b) {
                     return size_of(a) < size_of(b);
                   })));
  if (!wide.unavailable().empty()) {
    return skipped(wide.unavailable());
  }
  const std::vector<int64_t> q_rest{shape.q_heads, shape.head_dim};
  const std::vector<int64_t> kv_rest{shape.kv_heads, shape.head_dim};
  const std::vector<int64_t> blocks{0, 1, 2, 3}, documents{0, 3};
  const bdlm_layout layout{3, 3, blocks.data(), 1, documents.data(), 0, BDLM_TOKEN_CAUSAL, 0};
  const bdlm_segment segment{BDLM_CLEAN, 0, 0, 3};
  std::vector<int64_t> intervals;
  for (const Interval& keys : call.key_sets[0].intervals) {
    intervals.insert(intervals.end(), {keys.begin, keys.end});
  }
  bdlm_keys keys{};
  keys.k = wide.input(call.key_sets[0].k, contract.input, kv_rest);
  keys.v = wide.input(call.key_sets[0].v, contract.input, kv_rest);
  keys.segment_count = 1;
  keys.segments = &segment;
  keys.intervals = intervals.data();
  keys.dk = wide.output(contract.gradient, kv_rest);
  keys.dv = wide.output(contract.gradient, kv_rest);
  bdlm_attention_args args{};
  args.size = sizeof args;
  args.layout = &layout;
  args.scale = call.scale;
  args.q = wide.input(call.q, contract.input, q_rest);
  args.segment_count = 1;
  args.segments = &segment;
  args.key_set_count = 1;
  args.key_sets = &keys;
  args.o = wide.output(contract.o, q_rest);
  args.lse = wide.output(contract.lse, {shape.q_heads});
  bdlm_attention_backward_args back{};
  back.size = sizeof back;
  back.layout = &layout;
  back.scale = call.scale;
  back.q = args.q;
  back.segment_count = 1;
  back.segments = &segment;
  back.key_set_count = 1;
  back.key_sets = &keys;
  back.o = wide.input(near.out.o, contract.o, q_rest);
  back.lse = wide.input(near.out.lse, contract.lse, {shape.q_heads});
  back.d_o = wide.input(d_o, contract.input, q_rest);
  back.dq = wide.output(contract.gradient, q_rest);
  const auto attach = [&](auto* query, auto& call_args) {
    if (query != nullptr) {
      backend.check("workspace", query(backend.context(), &call_args, &call_args.workspace_bytes));
      call_args.workspace = wide.workspace(call_args.workspace_bytes);
    }
  };
  const auto finish = [&](const char* entry, bdlm_status code) {
    require_call(entry, backend.status(code), "");
    if (entries.synchronize != nullptr) {
      backend.check("synchronize", entries.synchronize(backend.context(), nullptr));
    }
  };
  attach(entries.attention_workspace, args);
  finish("attention", entries.attention(backend.context(), &args));
  attach(entries.attention_backward_workspace, back);
  finish("attention_backward", entries.attention_backward(backend.context(), &back));
  const NamedResults expected{{"O", near.out.o},
                              {"LSE", near.out.lse},
                              {"dQ", near_back.dq},
                              {"dK", near_back.gradients[0].dk},
                              {"dV", near_back.gradients[0].dv}};
  const NamedResults got{{"O", wide.read(args.o)},
                         {"LSE", wide.read(args.lse)},
                         {"dQ", wide.read(back.dq)},
                         {"dK", wide.read(keys.dk)},
                         {"dV", wide.read(keys.dv)}};
  return bitwise_result("rows 2^30 elements apart: offsets are computed in 32 bits",
                        difference(expected, got));
}

}  // namespace bdlm
