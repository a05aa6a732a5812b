#include "reference/objective/clean_next_token.h"

#include <cmath>

#include "reference/base/error.h"

namespace bdlm {

std::vector<LossTerm> clean_next_token(const TokenSequence& example,
                                       std::span<const LayerRule> rules,
                                       const CleanNextTokenOptions& options) {
  check(example, options.vocab);
  require(std::isfinite(options.weight), "the weight of the clean loss is ", options.weight,
          "; it must be finite");
  for (size_t layer = 0; layer < rules.size(); ++layer) {
    require(rules[layer].clean == CleanRule::token_causal, "layer ", layer,
            " has block-causal clean rows, which see the token that they should predict; the clean "
            "next-token loss needs token-causal rows");
  }
  const double weight = options.weight / static_cast<double>(count_supervised_successors(example));

  std::vector<LossTerm> terms;
  for (int64_t i = 0; i < example.sequence.length(); ++i) {
    if (example.is_supervised(i) && example.sequence.position(i) >= 1) {
      const int64_t label = example.tokens[i];
      check_label(label, i, options.excluded_logit);
      terms.push_back({Stream::clean, i - 1, label, weight});
    }
  }
  return terms;
}

}  // namespace bdlm
