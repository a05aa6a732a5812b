#include "conformance/suites/invalid_calls.h"

#include "conformance/plugin/call_frame.h"
#include "conformance/report/case_id.h"
#include "conformance/suites/backend_failure.h"

namespace bdlm {
namespace {

const std::vector<int64_t> block_start{0, 2, 4};
const std::vector<int64_t> document_start{0, 4};
const bdlm_layout valid_layout{
    4, 2, block_start.data(), 1, document_start.data(), 0, BDLM_BLOCK_CAUSAL, 0};
const bdlm_segment segment{BDLM_CLEAN, 0, 0, 4};
const std::vector<int64_t> intervals{0, 2, 0, 2, 0, 4, 0, 4};

std::vector<double> some(int64_t count) {
  std::vector<double> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(static_cast<double>(i % 7 - 3) / 4);
  }
  return out;
}

/// FAIL unless the entry returned an error and told what it is.
CaseResult refused(const Backend& backend, const char* entry, const CallStatus& status,
                   const std::string& violation) {
  CaseResult result;
  if (status.null_entry || !violation.empty()) {
    require_call(entry, status, violation);
  }
  if (status.ok()) {
    result.verdict = Verdict::fail;
    result.reason = Reason::guard;
    result.detail = join(entry, " returned BDLM_OK for wrong arguments");
  } else if (status.message.empty()) {
    result.verdict = Verdict::fail;
    result.reason = Reason::guard;
    result.detail = join(entry, " returned ", name(status.code), " of ", backend.name(),
                         ", and last_error says nothing");
  }
  return result;
}

/// A right call of 4 rows, 2 heads over 1, 8 channels, made wrong by `spoil`.
CaseResult wrong_attention(
    const Backend& backend,
    const std::function<void(CallTensors&, bdlm_attention_args&, bdlm_keys&)>& spoil) {
  const Contract& contract = backend.contract();
  std::string violation;
  const CallStatus status =
      run_call(backend, backend.entries().attention, {}, violation, [&](CallFrame& frame) {
        CallTensors& t = frame.tensors;
        bdlm_keys keys{};
        keys.k = t.input("k", some(32), contract.input, {4, 1, 8});
        keys.v = t.input("v", some(32), contract.input, {4, 1, 8});
        keys.segment_count = 1;
        keys.segments = &segment;
        keys.intervals = intervals.data();
        bdlm_attention_args args{};
        args.size = sizeof args;
        args.layout = &valid_layout;
        args.scale = 0.5;
        args.q = t.input("q", some(64), contract.input, {4, 2, 8});
        args.segment_count = 1;
        args.segments = &segment;
        args.key_set_count = 1;
        args.key_sets = &keys;
        args.o = t.output("o", contract.o, {4, 2, 8});
        args.lse = t.output("lse", contract.lse, {4, 2});
        spoil(t, args, keys);
        frame.make(args, backend.entries().attention_workspace, backend.entries().attention);
      });
  return refused(backend, "attention", status, violation);
}

CaseResult wrong_cross_entropy(
    const Backend& backend,
    const std::function<void(CallTensors&, bdlm_cross_entropy_args&)>& spoil) {
  const Contract& contract = backend.contract();
  std::string violation;
  const CallStatus status =
      run_call(backend, backend.entries().cross_entropy, {}, violation, [&](CallFrame& frame) {
        CallTensors& t = frame.tensors;
        const std::vector<int64_t> labels{0, 4, -1};
        bdlm_cross_entropy_args args{};
        args.size = sizeof args;
        args.hidden = t.input("hidden", some(24), contract.input, {3, 8});
        args.head = t.input("head", some(40), contract.input, {5, 8});
        args.labels = t.input("labels", std::span<const int64_t>(labels), {3});
        args.row_weights = t.input("row_weights", some(3), Dtype::fp32, {3});
        args.excluded = -1;
        args.upstream = 1;
        args.row_loss = t.output("row_loss", contract.lse, {3});
        args.d_hidden = t.output("d_hidden", contract.gradient, {3, 8});
        const bool f64 = contract.accumulate == Dtype::f64;
        args.d_head = t.output("d_head", f64 ? Dtype::f64 : Dtype::fp32, {5, 8});
        spoil(t, args);
        frame.make(args, backend.entries().cross_entropy_workspace,
                   backend.entries().cross_entropy);
      });
  return refused(backend, "cross_entropy", status, violation);
}

}  // namespace

std::vector<BackendCase> invalid_call_cases() {
  std::vector<BackendCase> out;
  const auto add = [&](const char* word, std::function<CaseResult(const Backend&)> run) {
    out.push_back(
        {CaseId("invalid").word("what", word).str(), "T6", Scheme::monolithic, 1, std::move(run)});
  };
  const auto attention = [&](const char* word, auto spoil) {
    add(word, [=](const Backend& backend) {
      return wrong_attention(backend,
                             [&](CallTensors& t, bdlm_attention_args& args, bdlm_keys& keys) {
                               spoil(t, args, keys, backend.contract());
                             });
    });
  };
  attention("size", [](CallTensors&, bdlm_attention_args& args, bdlm_keys&, const Contract&) {
    args.size = 8;
  });
  attention("heads", [](CallTensors& t, bdlm_attention_args&, bdlm_keys& keys, const Contract& c) {
    keys.k = t.input("k of 3 heads", some(96), c.input, {4, 3, 8});
    keys.v = t.input("v of 3 heads", some(96), c.input, {4, 3, 8});
  });
  attention("channels",
            [](CallTensors& t, bdlm_attention_args&, bdlm_keys& keys, const Contract& c) {
              keys.k = t.input("k of 4 channels", some(16), c.input, {4, 1, 4});
              keys.v = t.input("v of 4 channels", some(16), c.input, {4, 1, 4});
            });
  attention("keysets", [](CallTensors&, bdlm_attention_args& args, bdlm_keys&, const Contract&) {
    args.key_set_count = 3;
  });
  attention("nokeys", [](CallTensors&, bdlm_attention_args&, bdlm_keys& keys, const Contract&) {
    keys.k = nullptr;
  });
  add("vocab", [](const Backend& backend) {
    return wrong_cross_entropy(backend, [&](CallTensors& t, bdlm_cross_entropy_args& args) {
      args.head = t.input("head of width 4", some(20), backend.contract().input, {5, 4});
    });
  });
  add("lossrows", [](const Backend& backend) {
    return wrong_cross_entropy(backend, [&](CallTensors& t, bdlm_cross_entropy_args& args) {
      args.row_weights = t.input("two row_weights", some(2), Dtype::fp32, {2});
    });
  });
  return out;
}

}  // namespace bdlm
