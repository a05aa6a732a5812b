#pragma once
// The optional autoregressive loss of the clean stream.

#include <span>
#include <vector>

#include "reference/layout/visibility.h"
#include "reference/objective/loss_term.h"
#include "reference/objective/supervision.h"

namespace bdlm {

struct CleanNextTokenOptions {
  int64_t vocab = 0;
  /// lambda, the weight of this loss beside the others.
  double weight = 1;
  /// The id whose logit the model leaves out of the softmax, or -1.
  int64_t excluded_logit = -1;
};

/// Clean row i scores token i + 1 iff that token is supervised and of the same document:
///
///   loss = (lambda / n) sum CE,   n the supervised tokens at document position >= 1.
///
/// `rules` are those of all layers. Throws InputError where one is not token-causal (a block-causal
/// row sees the answer), and as masked_block does. Where an example has several views, the terms
/// belong to one of them: each clean row is counted once.
std::vector<LossTerm> clean_next_token(const TokenSequence& example,
                                       std::span<const LayerRule> rules,
                                       const CleanNextTokenOptions& options);

}  // namespace bdlm
