#include "reference/objective/masked_block.h"

#include "reference/base/error.h"

namespace bdlm {

View masked_block(const TokenSequence& example, const Draws& draws,
                  const MaskedBlockOptions& options) {
  const Sequence& sequence = example.sequence;
  check(example, options.vocab);
  check(draws, sequence);
  require(0 <= options.mask_token && options.mask_token < options.vocab, "the mask token is ",
          options.mask_token, "; allowed is [0, ", options.vocab, ")");
  const double denominator = static_cast<double>(count_supervised(example));
  const int64_t excluded = options.exclude_mask_logit ? options.mask_token : -1;

  View view{example.tokens, {}};
  for (int64_t b = 0; b < sequence.blocks(); ++b) {
    const double t = draws.block[b];
    require(t > 0, "block ", b, " has noise ", t, "; allowed is (0, 1]");
    const double weight = options.weight == BlockWeight::inverse_noise ? 1 / t : 1.0;
    for (int64_t i = sequence.block(b).begin; i < sequence.block(b).end; ++i) {
      if (!example.is_supervised(i) || draws.token[i] >= t) {
        continue;
      }
      const int64_t label = example.tokens[i];
      check_label(label, i, excluded);
      view.corrupted_tokens[i] = options.mask_token;
      view.terms.push_back({Stream::corrupted, i, label, weight / denominator});
    }
  }
  return view;
}

}  // namespace bdlm
