#include "reference/parallel/step_case.h"

#include "reference/base/error.h"

namespace bdlm {
namespace {

void check(const LossTerm& term, const DenseConfig& config, const Sequence& sequence) {
  require(0 <= term.row && term.row < sequence.length(), "a loss term names row ", term.row,
          " of a sequence of ", sequence.length());
  require(!sequence.is_padding(term.row), "a loss term names row ", term.row, ", which is padding");
  require(0 <= term.label && term.label < config.vocab, "the label of ", name(term.stream), " row ",
          term.row, " is ", term.label, "; allowed is [0, ", config.vocab, ")");
  check_label(term.label, term.row, config.excluded_logit);
  if (term.stream == Stream::clean) {
    for (size_t layer = 0; layer < config.rules.size(); ++layer) {
      require(config.rules[layer].clean == CleanRule::token_causal, "clean row ", term.row,
              " carries a loss and layer ", layer,
              " is block-causal, so that the row sees the token that it should predict");
    }
  }
}

}  // namespace

void check(const DenseCase& step_case) {
  const DenseConfig& config = step_case.config;
  const Sequence& sequence = step_case.example.sequence;
  check(config);
  check(step_case.example, config.vocab);
  require(!step_case.views.empty(), "a step needs at least one view of its sequence");
  for (const View& view : step_case.views) {
    require(static_cast<int64_t>(view.corrupted_tokens.size()) == sequence.length(), "a view has ",
            view.corrupted_tokens.size(), " corrupted tokens for a sequence of ",
            sequence.length());
    for (const int64_t id : view.corrupted_tokens) {
      require(0 <= id && id < config.vocab, "a corrupted token has id ", id, "; allowed is [0, ",
              config.vocab, ")");
    }
    for (const LossTerm& term : view.terms) {
      check(term, config, sequence);
    }
  }
}

}  // namespace bdlm
