#pragma once
// What an objective hands to the model: the corrupted tokens, and the loss as a list of terms.

#include <cstdint>
#include <vector>

#include "reference/layout/band.h"

namespace bdlm {

/// `weight` times the cross-entropy of `label` under the logits of one row. Weights hold the
/// denominator of the whole loss, over all ranks: the loss is a plain sum of terms, so the partial
/// sums of ranks add up, and so do their gradients.
struct LossTerm {
  Stream stream = Stream::corrupted;
  int64_t row = 0;
  int64_t label = 0;
  double weight = 0;
  friend bool operator==(const LossTerm&, const LossTerm&) = default;
};

/// One pass of the sequence through the model: both streams, one corruption.
struct View {
  /// The token id of every corrupted row (L); padding and tokens left alone keep their own.
  std::vector<int64_t> corrupted_tokens;
  /// In ascending order of (stream, row) within one objective.
  std::vector<LossTerm> terms;
};

}  // namespace bdlm
