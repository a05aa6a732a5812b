#include "conformance/suites/backend_attention_suite.h"

#include "conformance/judge/judge_attention.h"
#include "conformance/plugin/calls.h"
#include "conformance/report/case_id.h"
#include "conformance/suites/attention_data.h"
#include "conformance/suites/attention_problem.h"

namespace bdlm {
namespace {

/// All rows of both streams in one call, on all keys.
AttentionCall whole_call(const AttentionProblem<double>& problem, const Sequence& sequence,
                         const LayerRule& rule) {
  const IntervalSet all{{0, sequence.length()}};
  AttentionCall call;
  call.sequence = sequence;
  call.rule = rule;
  call.shape = problem.shape;
  call.scale = problem.scale;
  call.rows = RowSet(all, all);
  const int64_t d = problem.shape.head_dim;
  call.q = take_rows(problem.q, call.rows, problem.shape.q_heads * d);
  for (const Stream stream : {Stream::clean, Stream::corrupted}) {
    CallKeys keys;
    keys.rows = stream == Stream::clean ? RowSet({}, all) : RowSet(all, {});
    keys.k = take_rows(problem.k, keys.rows, problem.shape.kv_heads * d);
    keys.v = take_rows(problem.v, keys.rows, problem.shape.kv_heads * d);
    for (const Segment& segment : call.rows.segments()) {
      for (int64_t row = segment.rows.begin; row < segment.rows.end; ++row) {
        keys.intervals.push_back(visible(sequence, rule, segment.stream, row, stream));
      }
    }
    call.key_sets.push_back(std::move(keys));
  }
  return call;
}

/// Puts rows back at their positions.
ByStream<double> by_stream(const std::vector<double>& values, const RowSet& rows, int64_t length,
                           int64_t width) {
  ByStream<double> out{std::vector<double>(length * width), std::vector<double>(length * width)};
  add_to(out, rows, width, values);
  return out;
}

CaseResult judge_whole(const Backend& backend, const Sequence& sequence, const LayerRule& rule,
                       const AttentionShape& shape, uint64_t seed) {
  AttentionProblem<double> problem =
      attention_data<double>(shape, sequence.length(), DataKind::gauss, seed);
  for (auto* tensor : {&problem.q, &problem.k, &problem.v, &problem.d_o}) {
    for (auto& stream : *tensor) {
      for (double& x : stream) {
        x = round_to(x, backend.contract().input);
      }
    }
  }
  const AttentionCall call = whole_call(problem, sequence, rule);
  CallOptions options;
  options.tensors.poison = seed;
  const AttentionForwardResult forward =
      call_attention(backend, call, nullptr, Stage::final, options);
  if (auto result = unjudged("attention", forward.status, forward.violation)) {
    return *result;
  }
  const int64_t q_width = shape.q_heads * shape.head_dim;
  const int64_t kv_width = shape.kv_heads * shape.head_dim;
  const AttentionBackwardResult backward = call_attention_backward(
      backend, call, forward.out, take_rows(problem.d_o, call.rows, q_width), nullptr, Stage::final,
      options);
  if (auto result = unjudged("attention_backward", backward.status, backward.violation)) {
    return *result;
  }
  const int64_t length = sequence.length();
  AttentionOutputs got;
  got.o = by_stream(forward.out.o, call.rows, length, q_width);
  got.lse = by_stream(forward.out.lse, call.rows, length, shape.q_heads);
  got.dq = by_stream(backward.dq, call.rows, length, q_width);
  for (size_t s = 0; s < call.key_sets.size(); ++s) {
    const RowSet& rows = call.key_sets[s].rows;
    const int stream = static_cast<int>(rows.segments().front().stream);
    got.dk[stream] = by_stream(backward.gradients[s].dk, rows, length, kv_width)[stream];
    got.dv[stream] = by_stream(backward.gradients[s].dv, rows, length, kv_width)[stream];
  }
  const Decomposition decomposition = whole(sequence, rule);
  CaseResult result;
  for (const TensorResult& tensor : judge_attention(
           problem, decomposition, expected_attention(problem, decomposition, backend.contract()),
           got, /*gaussian=*/true)) {
    result.add(tensor);
  }
  return result;
}

}  // namespace

std::vector<BackendCase> backend_attention_cases(const Selection&) {
  constexpr int64_t length = 61;
  constexpr int64_t block_size = 8;
  constexpr uint64_t seed = 1;
  const AttentionShape shape{4, 2, 32};
  CaseId id("monolithic");
  id.number("P", 1).number("L", length).number("M", block_size);
  id.heads(shape.q_heads, shape.kv_heads).number("d", shape.head_dim).word("data", "gauss");
  id.number("s", seed);
  BackendCase whole_case;
  whole_case.id = id.str();
  whole_case.tier = "T4";
  whole_case.run = [=](const Backend& backend) {
    return judge_whole(backend, Sequence::uniform(length, block_size), {}, shape, seed);
  };
  return {whole_case};
}

}  // namespace bdlm
