// T6: bits that may not depend on how a call is made; memory that may not be touched; errors that
// must be reported. Guards, unwritten outputs and written inputs are checked with every call of
// every tier.

#include "conformance/judge/judge_attention.h"
#include "conformance/report/case_id.h"
#include "conformance/suites/backend_failure.h"
#include "conformance/suites/backend_run.h"
#include "conformance/suites/backend_suite.h"
#include "conformance/suites/hygiene_calls.h"
#include "conformance/suites/invalid_calls.h"
#include "conformance/suites/wide_call.h"
#include "reference/schedule/plan_builder.h"

namespace bdlm {
namespace {

constexpr int repeats = 30;

/// Runs into memory that was filled differently each time, every other one on a stream of its own.
CaseResult deterministic(const HygieneSubject& subject, const Backend& backend) {
  const NamedResults first = subject.run(backend, {});
  CaseResult result;
  for (int i = 1; i < repeats; ++i) {
    CallOptions options;
    options.tensors.poison = static_cast<uint64_t>(i) + 1;
    options.own_stream = i % 2 == 1;
    options.delay_us = i % 4 == 3 ? 300 : 0;
    const std::string differs = difference(first, subject.run(backend, options));
    if (!differs.empty() && backend.contract().deterministic) {
      return bitwise_result(join("run ", i + 1, " of the same call"), differs);
    }
  }
  if (!backend.contract().deterministic) {
    result.detail = "the contract declares no determinism: memory alone was checked";
  }
  return result;
}

struct Variant {
  const char* word;
  const char* what;
  CallOptions options;
};

std::vector<Variant> variants() {
  std::vector<Variant> out;
  const auto add = [&](const char* word, const char* what, auto edit) {
    Variant v{word, what, {}};
    edit(v.options);
    out.push_back(v);
  };
  add("inplace", "with states updated in place", [](CallOptions& o) { o.in_place = true; });
  add("padded", "with 5 elements between rows", [](CallOptions& o) { o.tensors.row_padding = 5; });
  add("strided", "with explicit strides", [](CallOptions& o) {
    o.tensors.explicit_strides = true;
    o.tensors.row_padding = 64;
  });
  add("misaligned4", "4 bytes off alignment", [](CallOptions& o) { o.tensors.misalignment = 4; });
  add("misaligned40", "40 bytes off alignment, with a byte offset", [](CallOptions& o) {
    o.tensors.misalignment = 40;
    o.tensors.byte_offset = 128;
  });
  add("everything", "in place, padded, misaligned, on its own stream", [](CallOptions& o) {
    o.in_place = true;
    o.tensors.row_padding = 3;
    o.tensors.misalignment = 8;
    o.own_stream = true;
    o.delay_us = 500;
  });
  return out;
}

CaseResult unchanged(const HygieneSubject& subject, const Variant& variant,
                     const Backend& backend) {
  if (!backend.contract().deterministic) {
    subject.run(backend, variant.options);
    return {};
  }
  return bitwise_result(
      join("the same call ", variant.what),
      difference(subject.run(backend, {}), subject.run(backend, variant.options)));
}

WholeCall mask(bool first, const Contract& contract) {
  const LayerRule rule =
      first ? LayerRule{CleanRule::block_causal, 0} : LayerRule{CleanRule::token_causal, 9};
  return whole_call(Sequence::uniform(70, first ? 8 : 5), rule, {2, 1, 32}, contract, 4);
}

/// Masks A, B, A on the same data: each result within the bounds of its own mask.
CaseResult masks_in_turn(const Backend& backend) {
  CaseResult result;
  for (const bool first : {true, false, true}) {
    const LayerRule rule =
        first ? LayerRule{CleanRule::block_causal, 0} : LayerRule{CleanRule::token_causal, 9};
    const Sequence sequence = Sequence::uniform(70, first ? 8 : 5);
    const std::vector<RankPlan> plans =
        build_plans(sequence, divide(sequence, Scheme::monolithic, 1), rule);
    const AttentionProblem<double> problem =
        backend_data({2, 1, 32}, 70, DataKind::gauss, 4, backend.contract());
    const Decomposition one = of_plans(sequence, rule, plans);
    const BackendOutcome run = run_on_backend(backend, sequence, rule, plans, problem);
    for (TensorResult& t :
         judge_attention(problem, one, expected_attention(problem, one, backend.contract()),
                         run.outputs, true)) {
      t.tensor += first ? " under mask A" : " under mask B";
      result.add(std::move(t));
    }
  }
  return result;
}

/// Forward A, forward B, backward A, backward B, as layers are called.
CaseResult interleaved(const Backend& backend) {
  const WholeCall calls[] = {mask(true, backend.contract()), mask(false, backend.contract())};
  const NamedResults alone[] = {run_whole(backend, calls[0], {}), run_whole(backend, calls[1], {})};
  std::vector<AttentionForwardResult> forward;
  for (const WholeCall& c : calls) {
    forward.push_back(call_attention(backend, c.call, nullptr, Stage::final));
    require_call("attention", forward.back().status, forward.back().violation);
  }
  for (int i = 0; i < 2 && backend.contract().deterministic; ++i) {
    const AttentionBackwardResult backward = call_attention_backward(
        backend, calls[i].call, forward[i].out, calls[i].d_o, nullptr, Stage::final);
    require_call("attention_backward", backward.status, backward.violation);
    const NamedResults got{{"O", forward[i].out.o},
                           {"LSE", forward[i].out.lse},
                           {"dQ", backward.dq},
                           {"dK", backward.gradients[0].dk},
                           {"dV", backward.gradients[0].dv},
                           {"dK", backward.gradients[1].dk},
                           {"dV", backward.gradients[1].dv}};
    const std::string differs = difference(alone[i], got);
    if (!differs.empty()) {
      return bitwise_result(join("layer ", i + 1, " of two, called in turn"), differs);
    }
  }
  return {};
}

/// The default stream is busy when a call is made on another one: what was launched on the wrong
/// stream has not been written when the right one is done.
CaseResult busy_stream(const Backend& backend) {
  const bdlm_backend& entries = backend.entries();
  if (entries.create_stream == nullptr) {
    CaseResult result;
    result.verdict = Verdict::unsupported;
    result.reason = Reason::null_entry;
    result.detail = "the entry create_stream is NULL: work is synchronous";
    return result;
  }
  const WholeCall whole = mask(true, backend.contract());
  const NamedResults alone = run_whole(backend, whole, {});
  CallOptions options;
  options.own_stream = true;
  const NamedResults got = run_whole(backend, whole, options, [&] {
    backend.check("delay", entries.delay(backend.context(), nullptr, 30000));
  });
  backend.check("synchronize", entries.synchronize(backend.context(), nullptr));
  return backend.contract().deterministic
             ? bitwise_result("a call while the default stream is busy", difference(alone, got))
             : CaseResult{};
}

}  // namespace

std::vector<BackendCase> hygiene_cases(const Selection& selection) {
  std::vector<BackendCase> out;
  const auto add = [&](const CaseId& id, std::function<CaseResult(const Backend&)> run) {
    out.push_back({id.str(), "T6", Scheme::monolithic, 1, std::move(run)});
  };
  static const std::vector<Variant> ways = variants();
  for (const HygieneSubject& subject : hygiene_subjects()) {
    add(CaseId("determinism").word("what", subject.name),
        [&subject](const Backend& backend) { return deterministic(subject, backend); });
    for (const Variant& variant : ways) {
      add(CaseId("hygiene").word("what", subject.name).word("zhow", variant.word),
          [&](const Backend& backend) { return unchanged(subject, variant, backend); });
    }
  }
  add(CaseId("order").word("what", "masks"), masks_in_turn);
  add(CaseId("order").word("what", "layers"), interleaved);
  add(CaseId("stream").word("what", "busy"), busy_stream);
  for (const int64_t head_dim : {16, 128}) {
    add(CaseId("offsets").number("d", head_dim).word("what", "attention"),
        [=](const Backend& backend) { return wide_attention(backend, head_dim); });
  }
  for (BackendCase& c : invalid_call_cases()) {
    out.push_back(std::move(c));
  }
  (void)selection;
  return out;
}

}  // namespace bdlm
