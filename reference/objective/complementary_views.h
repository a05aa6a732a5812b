#pragma once
// complementary_views: two copies of an example whose masks complete each other; each masked token
// is predicted by the row before it, as in an autoregressive model.

#include <array>

#include "reference/objective/draws.h"
#include "reference/objective/loss_term.h"
#include "reference/objective/supervision.h"

namespace bdlm {

struct ComplementaryViewsOptions {
  int64_t vocab = 0;
  int64_t mask_token = 0;
  /// Whether the model leaves the mask token's logit out of the softmax: then no label may be it.
  bool exclude_mask_logit = false;
};

/// With `p_b = noise_of(t_b)`, the first view masks the supervised tokens with `u_i < p_b`, the
/// second one the other supervised tokens. In each view corrupted row i scores token i + 1 iff that
/// token is masked there and is of the same document; a document's first token is scored by nobody.
///
///   loss = (1 / n) sum over views and scored tokens of CE,
///
/// n the supervised tokens at document position >= 1: each of them is scored in exactly one view. A
/// term belongs to its *row's* block; the last row of a block scores the first token of the next.
/// Throws InputError as masked_block does, except that t_b = 0 is allowed.
std::array<View, 2> complementary_views(const TokenSequence& example, const Draws& draws,
                                        const ComplementaryViewsOptions& options);

}  // namespace bdlm
