#include "conformance/suites/hygiene_calls.h"

#include "conformance/suites/backend_failure.h"
#include "conformance/suites/backend_run.h"
#include "reference/base/philox.h"
#include "reference/layout/visibility.h"

namespace bdlm {
namespace {

NamedResults attention(const Backend& backend, const LayoutCase& layout,
                       const AttentionShape& shape, const CallOptions& options) {
  const AttentionProblem<double> problem =
      backend_data(shape, layout.shape.sequence.length(), DataKind::gauss, 9, backend.contract());
  return named(run_on_backend(backend, layout.shape.sequence, layout.rule, groups_of(layout)[0],
                              problem, options)
                   .outputs);
}

std::vector<double> gaussian(int64_t count, uint32_t tensor, Dtype dtype) {
  const Philox random(31, tensor);
  std::vector<double> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(round_to(random.gaussian(i), dtype));
  }
  return out;
}

NamedResults merge(const Backend& backend, const CallOptions& options) {
  const Contract& contract = backend.contract();
  constexpr int64_t rows = 70, heads = 3, d = 48;
  const AttentionState a{gaussian(rows * heads * d, 0, contract.partial_o),
                         gaussian(rows * heads, 1, contract.lse)};
  const AttentionState b{gaussian(rows * heads * d, 2, contract.partial_o),
                         gaussian(rows * heads, 3, contract.lse)};
  const AttentionForwardResult result = call_merge(backend, heads, d, a, b, options);
  require_call("merge", result.status, result.violation);
  return {{"O", result.out.o}, {"LSE", result.out.lse}};
}

NamedResults cross_entropy(const Backend& backend, const CallOptions& options) {
  const Contract& contract = backend.contract();
  CrossEntropyCall call;
  constexpr int64_t rows = 75;
  call.hidden_size = 40;
  call.vocab = 131;
  call.softcap = 20;
  call.upstream = 0.7;
  call.hidden = gaussian(rows * call.hidden_size, 0, contract.input);
  call.head = gaussian(call.vocab * call.hidden_size, 1, contract.input);
  call.row_weights = gaussian(rows, 2, Dtype::fp32);
  const Philox random(31, 3);
  for (int64_t i = 0; i < rows; ++i) {
    call.labels.push_back(i % 6 == 4 ? -1 : random.below(i, call.vocab));
  }
  const CrossEntropyResult result = call_cross_entropy(backend, call, options);
  require_call("cross_entropy", result.status, result.violation);
  return {{"row_loss", result.row_loss}, {"d_hidden", result.d_hidden}, {"d_head", result.d_head}};
}

}  // namespace

const std::vector<HygieneSubject>& hygiene_subjects() {
  static const std::vector<HygieneSubject> all = [] {
    const LayoutCase full{{Sequence::uniform(58, 8), 8, "", ""},
                          {CleanRule::block_causal, 0},
                          Scheme::csbp,
                          2,
                          BlockAssignment::dual_end};
    const LayoutCase window{shape_of_documents(53, 3, {5, 11, 33}),
                            {CleanRule::token_causal, 9},
                            Scheme::csbp,
                            2,
                            BlockAssignment::dual_end};
    return std::vector<HygieneSubject>{{"attention",
                                        [=](const Backend& backend, const CallOptions& options) {
                                          return attention(backend, full, {2, 1, 64}, options);
                                        }},
                                       {"windowed",
                                        [=](const Backend& backend, const CallOptions& options) {
                                          return attention(backend, window, {3, 1, 40}, options);
                                        }},
                                       {"merge", merge},
                                       {"crossentropy", cross_entropy}};
  }();
  return all;
}

WholeCall whole_call(const Sequence& sequence, const LayerRule& rule, const AttentionShape& shape,
                     const Contract& contract, uint64_t seed) {
  const int64_t length = sequence.length();
  const AttentionProblem<double> p = backend_data(shape, length, DataKind::gauss, seed, contract);
  WholeCall out;
  out.call.sequence = sequence;
  out.call.rule = rule;
  out.call.shape = shape;
  out.call.scale = p.scale;
  out.call.rows = RowSet({{0, length}}, {{0, length}});
  const auto both = [](const ByStream<double>& values) {
    std::vector<double> all = values[1];
    all.insert(all.end(), values[0].begin(), values[0].end());
    return all;
  };
  out.call.q = both(p.q);
  out.d_o = both(p.d_o);
  for (const Stream key : {Stream::clean, Stream::corrupted}) {
    const int t = static_cast<int>(key);
    CallKeys keys{key == Stream::clean ? RowSet({}, {{0, length}}) : RowSet({{0, length}}, {}),
                  p.k[t],
                  p.v[t],
                  {}};
    for (const Stream query : {Stream::corrupted, Stream::clean}) {
      for (int64_t row = 0; row < length; ++row) {
        keys.intervals.push_back(visible(sequence, rule, query, row, key));
      }
    }
    out.call.key_sets.push_back(std::move(keys));
  }
  return out;
}

NamedResults run_whole(const Backend& backend, const WholeCall& whole, const CallOptions& options,
                       const std::function<void()>& before_entry) {
  const auto before = [&] {
    if (before_entry) {
      before_entry();
    }
  };
  before();
  const AttentionForwardResult forward =
      call_attention(backend, whole.call, nullptr, Stage::final, options);
  require_call("attention", forward.status, forward.violation);
  before();
  const AttentionBackwardResult backward = call_attention_backward(
      backend, whole.call, forward.out, whole.d_o, nullptr, Stage::final, options);
  require_call("attention_backward", backward.status, backward.violation);
  NamedResults out{{"O", forward.out.o}, {"LSE", forward.out.lse}, {"dQ", backward.dq}};
  for (size_t s = 0; s < backward.gradients.size(); ++s) {
    out.emplace_back(join("dK of key set ", s), backward.gradients[s].dk);
    out.emplace_back(join("dV of key set ", s), backward.gradients[s].dv);
  }
  return out;
}

}  // namespace bdlm
