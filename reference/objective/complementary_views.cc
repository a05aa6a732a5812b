#include "reference/objective/complementary_views.h"

#include "reference/base/error.h"

namespace bdlm {

std::array<View, 2> complementary_views(const TokenSequence& example, const Draws& draws,
                                        const ComplementaryViewsOptions& options) {
  const Sequence& sequence = example.sequence;
  check(example, options.vocab);
  check(draws, sequence);
  require(0 <= options.mask_token && options.mask_token < options.vocab, "the mask token is ",
          options.mask_token, "; allowed is [0, ", options.vocab, ")");
  const double weight = 1 / static_cast<double>(count_supervised_successors(example));
  const int64_t excluded = options.exclude_mask_logit ? options.mask_token : -1;

  std::array<View, 2> views{View{example.tokens, {}}, View{example.tokens, {}}};
  for (int64_t b = 0; b < sequence.blocks(); ++b) {
    const double p = noise_of(draws.block[b]);
    for (int64_t i = sequence.block(b).begin; i < sequence.block(b).end; ++i) {
      if (!example.is_supervised(i)) {
        continue;
      }
      View& view = views[draws.token[i] < p ? 0 : 1];
      view.corrupted_tokens[i] = options.mask_token;
      if (sequence.position(i) >= 1) {
        const int64_t label = example.tokens[i];
        check_label(label, i, excluded);
        view.terms.push_back({Stream::corrupted, i - 1, label, weight});
      }
    }
  }
  return views;
}

}  // namespace bdlm
