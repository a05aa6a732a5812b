// T4: cross-entropy of a linear head against the reference in double.

#include <cmath>

#include "conformance/judge/judge_tensor.h"
#include "conformance/report/case_id.h"
#include "conformance/suites/backend_failure.h"
#include "conformance/suites/backend_suite.h"
#include "conformance/suites/cross_entropy_bound.h"
#include "reference/base/philox.h"

namespace bdlm {
namespace {

enum class Ignored : uint8_t {
  none,
  some,   ///< rows 0, 9 and 4 to 7: a chunk of four without a label
  most,   ///< all but one
  every,  ///< no row counts
};

struct CrossEntropyCase {
  const char* word;
  int64_t rows, hidden, vocab;
  Ignored ignored = Ignored::none;
  double softcap = 0;
  bool excluded = false;
  double upstream = 1;
  /// Deviation of the logits.
  double logits = 2;
  /// Ignored rows hold NaN.
  bool garbage = false;

  std::string id() const {
    return CaseId("crossentropy")
        .word("what", word)
        .number("rows", rows)
        .number("width", hidden)
        .number("vocab", vocab)
        .str();
  }
};

bool is_ignored(Ignored how, int64_t row) {
  switch (how) {
    case Ignored::none:
      return false;
    case Ignored::some:
      return row == 0 || row == 9 || (row >= 4 && row < 8);
    case Ignored::most:
      return row != 3;
    case Ignored::every:
      break;
  }
  return true;
}

CrossEntropyCall make_call(const CrossEntropyCase& c, const Contract& contract) {
  CrossEntropyCall call;
  call.hidden_size = c.hidden;
  call.vocab = c.vocab;
  call.softcap = c.softcap;
  call.excluded = c.excluded ? c.vocab / 2 : -1;
  call.upstream = c.upstream;
  const Philox hidden(21, 0), head(21, 1), rest(21, 2);
  // Deviations 1.155 each.
  const double factor = c.logits / (1.155 * 1.155 * std::sqrt(static_cast<double>(c.hidden)));
  for (int64_t i = 0; i < c.rows * c.hidden; ++i) {
    const bool nan = c.garbage && is_ignored(c.ignored, i / c.hidden);
    call.hidden.push_back(nan ? std::numeric_limits<double>::quiet_NaN()
                              : round_to(hidden.gaussian(i), contract.input));
  }
  for (int64_t i = 0; i < c.vocab * c.hidden; ++i) {
    call.head.push_back(round_to(factor * head.gaussian(i), contract.input));
  }
  for (int64_t i = 0; i < c.rows; ++i) {
    int64_t label = rest.below(2 * i, c.vocab);
    label = label == call.excluded ? (label + 1) % c.vocab : label;
    call.labels.push_back(is_ignored(c.ignored, i) ? -1 - i % 2 * 99 : label);
    // 1/t for noise levels t, over a denominator; one row's weight is 0 and one is negative.
    const double t = 1e-3 + rest.uniform(2 * i + 1);
    const double weight = i % 11 == 5 ? 0 : (i % 11 == 6 ? -0.75 : 1 / t);
    call.row_weights.push_back(round_to(weight / 37, Dtype::fp32));
  }
  return call;
}

/// The judge of attention's tensors on a matrix: rows are tokens, columns channels.
TensorResult judge_matrix(OutputKind kind, const char* tensor, int64_t rows, int64_t columns,
                          const ExpectedTensor& expected, const std::vector<double>& got) {
  const Decomposition one = whole(Sequence::uniform(rows, 1), LayerRule{});
  TensorResult result =
      judge_tensor(kind, {1, 1, columns}, one, expected, ByStream<double>{got, {}}, false);
  result.tensor = tensor;
  return result;
}

CaseResult judge(const CrossEntropyCase& c, const Backend& backend) {
  const CrossEntropyCall call = make_call(c, backend.contract());
  const ExpectedCrossEntropy expected = expected_cross_entropy(call, backend.contract());
  const CrossEntropyResult got = call_cross_entropy(backend, call);
  require_call("cross_entropy", got.status, got.violation);
  CaseResult result;
  const auto add = [&](TensorResult tensor) {
    if (c.ignored == Ignored::every && tensor.verdict == Verdict::mistrusted) {
      // Zeros are the right answer.
      tensor.verdict = Verdict::pass;
    }
    result.add(std::move(tensor));
  };
  add(judge_matrix(OutputKind::lse, "row_loss", c.rows, 1, expected.row_loss, got.row_loss));
  add(judge_matrix(OutputKind::dq, "d_hidden", c.rows, c.hidden, expected.d_hidden, got.d_hidden));
  add(judge_matrix(OutputKind::dk, "d_head", c.vocab, c.hidden, expected.d_head, got.d_head));
  return result;
}

}  // namespace

std::vector<BackendCase> cross_entropy_cases(const Selection& selection) {
  std::vector<CrossEntropyCase> cases{
      {"plain", 10, 16, 23},
      {"plain", 37, 24, 101},
      {"plain", 64, 64, 515},
      {"upstream", 37, 24, 101, Ignored::none, 0, false, -0.375},
      {"ignored", 10, 16, 23, Ignored::some, 0, false, 1, 2, true},
      {"ignored", 37, 24, 101, Ignored::most, 0, false, 1, 2, true},
      {"noneleft", 10, 16, 23, Ignored::every, 0, false, 1, 2, true},
      {"softcap", 37, 24, 101, Ignored::some, 5, false, 1, 6},
      {"excluded", 37, 24, 101, Ignored::some, 0, true},
      {"softcapexcluded", 20, 32, 67, Ignored::none, 3, true, 2.5, 4, false},
      {"large", 20, 32, 67, Ignored::none, 0, false, 1, 60},
      {"oneclass", 9, 16, 2},
  };
  if (selection.level != Level::quick) {
    cases.push_back({"wide", 150, 256, 2049, Ignored::some, 30, true, 0.5, 4, true});
    cases.push_back({"tall", 700, 40, 300, Ignored::some});
  }
  std::vector<BackendCase> out;
  for (const CrossEntropyCase& c : cases) {
    out.push_back({c.id(), "T4", Scheme::monolithic, 1,
                   [c](const Backend& backend) { return judge(c, backend); }});
  }
  return out;
}

}  // namespace bdlm
