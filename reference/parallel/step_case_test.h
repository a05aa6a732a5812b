#pragma once
// Training cases for tests: small models, irregular sequences, every option somewhere.

#include <string>
#include <vector>

#include "reference/base/philox.h"
#include "reference/objective/clean_next_token.h"
#include "reference/objective/complementary_views.h"
#include "reference/objective/masked_block.h"
#include "reference/parallel/step_case.h"

namespace bdlm::test {

enum class ObjectiveKind { masked_block, complementary_views };

struct CaseOptions {
  Sequence sequence = Sequence::uniform(16, 4);
  DenseConfig config{.layers = 1, .rules = {LayerRule{}}};
  ObjectiveKind objective = ObjectiveKind::masked_block;
  /// The weight of the clean next-token loss; 0 for none.
  double clean_loss = 0;
  /// (L) supervision; empty for a random 4 in 5.
  std::vector<uint8_t> supervised = {};
  /// The noise of every block; 0 for drawn noise.
  double noise = 0;
  uint64_t seed = 1;
};

/// A model of `rules.size()` layers with grouped heads and every option on.
inline DenseConfig full_config(std::vector<LayerRule> rules) {
  DenseConfig config;
  config.layers = static_cast<int64_t>(rules.size());
  config.hidden = 12;
  config.q_heads = 6;
  config.kv_heads = 2;
  config.head_dim = 4;
  config.mlp = 20;
  config.vocab = 19;
  config.qk_norm = true;
  config.softcap = 5;
  config.excluded_logit = config.vocab - 1;
  config.rules = std::move(rules);
  return config;
}

/// Random tokens and draws from the seed. The mask token is the last id, which no token has.
inline DenseCase make_case(const CaseOptions& options) {
  const Sequence& sequence = options.sequence;
  const int64_t vocab = options.config.vocab;
  const bool exclude = options.config.excluded_logit == vocab - 1;
  TokenSequence example{sequence, {}, options.supervised};
  const Philox random(options.seed, 100);
  for (int64_t i = 0; i < sequence.length(); ++i) {
    example.tokens.push_back(random.below(2 * i, vocab - 1));
    if (options.supervised.empty()) {
      example.supervised.push_back(random.uniform(2 * i + 1) < 0.8);
    }
  }
  DenseCase out{options.config, example, {}};
  if (options.objective == ObjectiveKind::masked_block) {
    Draws draws = masked_block_draws(sequence, {.seed = options.seed});
    if (options.noise != 0) {
      draws.block.assign(draws.block.size(), options.noise);
    }
    out.views = {masked_block(
        example, draws, {.vocab = vocab, .mask_token = vocab - 1, .exclude_mask_logit = exclude})};
  } else {
    const Draws draws = complementary_draws(sequence, {.seed = options.seed});
    const auto views = complementary_views(
        example, draws, {.vocab = vocab, .mask_token = vocab - 1, .exclude_mask_logit = exclude});
    out.views = {views[0], views[1]};
  }
  if (options.clean_loss != 0) {
    const auto terms = clean_next_token(example, options.config.rules,
                                        {.vocab = vocab,
                                         .weight = options.clean_loss,
                                         .excluded_logit = options.config.excluded_logit});
    out.views[0].terms.insert(out.views[0].terms.end(), terms.begin(), terms.end());
  }
  return out;
}

}  // namespace bdlm::test
