#pragma once
// masked_block: each block is noised at its own level; masked tokens are predicted in place.

#include "reference/objective/draws.h"
#include "reference/objective/loss_term.h"
#include "reference/objective/supervision.h"

namespace bdlm {

enum class BlockWeight : uint8_t { inverse_noise, one };

struct MaskedBlockOptions {
  int64_t vocab = 0;
  int64_t mask_token = 0;
  /// w_b: `1/t_b` or 1.
  BlockWeight weight = BlockWeight::inverse_noise;
  /// Whether the model leaves the mask token's logit out of the softmax: then no label may be it.
  bool exclude_mask_logit = false;
};

/// A supervised token i of block b is masked iff `u_i < t_b`: its corrupted row reads the mask
/// token and scores the token itself (no shift).
///
///   loss = (1 / N_sup) sum_b w_b sum_{masked i of b} CE_i
///
/// N_sup counts supervised tokens, masked or not. Throws InputError on ids outside the vocabulary,
/// draws of the wrong number or range, t_b = 0, an excluded label, or no supervised token.
View masked_block(const TokenSequence& example, const Draws& draws,
                  const MaskedBlockOptions& options);

}  // namespace bdlm
