#pragma once
// The tokens of a training example and which of them are supervised.

#include <cstdint>
#include <span>
#include <vector>

#include "reference/layout/sequence.h"

namespace bdlm {

/// A sequence with its tokens. Padding has a token id too (it is embedded, and then unread).
struct TokenSequence {
  Sequence sequence;
  /// (L) token ids.
  std::vector<int64_t> tokens;
  /// (L) 1 where the token may be a label. Padding never is, whatever stands here.
  std::vector<uint8_t> supervised;

  bool is_supervised(int64_t token) const {
    return supervised[token] != 0 && !sequence.is_padding(token);
  }
};

/// Throws InputError unless there is one token id in `[0, vocab)` and one supervision flag for
/// every position.
void check(const TokenSequence& example, int64_t vocab);

/// N_sup: the number of supervised tokens. Throws InputError when there is none, since the mean
/// over them does not exist.
int64_t count_supervised(const TokenSequence& example);

/// The number of supervised tokens that have a predecessor in their document, which are those that
/// a shifted objective can score. Throws InputError when there is none.
int64_t count_supervised_successors(const TokenSequence& example);

/// Throws InputError when `label` is the logit that the softmax leaves out (-1: none is left out).
void check_label(int64_t label, int64_t token, int64_t excluded_logit);

}  // namespace bdlm
