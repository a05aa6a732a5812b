#include "reference/objective/supervision.h"

#include "reference/base/error.h"

namespace bdlm {

void check(const TokenSequence& example, int64_t vocab) {
  const int64_t length = example.sequence.length();
  require(vocab >= 1, "the vocabulary has ", vocab, " tokens; at least 1 is needed");
  require(static_cast<int64_t>(example.tokens.size()) == length, "there are ",
          example.tokens.size(), " token ids for a sequence of ", length);
  require(static_cast<int64_t>(example.supervised.size()) == length, "there are ",
          example.supervised.size(), " supervision flags for a sequence of ", length);
  for (int64_t i = 0; i < length; ++i) {
    const int64_t id = example.tokens[i];
    require(0 <= id && id < vocab, "token ", i, " has id ", id, "; allowed is [0, ", vocab, ")");
  }
}

int64_t count_supervised(const TokenSequence& example) {
  int64_t count = 0;
  for (int64_t i = 0; i < example.sequence.length(); ++i) {
    count += example.is_supervised(i);
  }
  require(count > 0, "no token is supervised; the loss is a mean over at least 1");
  return count;
}

int64_t count_supervised_successors(const TokenSequence& example) {
  int64_t count = 0;
  for (int64_t i = 0; i < example.sequence.length(); ++i) {
    count += example.is_supervised(i) && example.sequence.position(i) >= 1;
  }
  require(count > 0,
          "no supervised token has a predecessor in its document; the loss is a mean over at "
          "least 1 of these");
  return count;
}

void check_label(int64_t label, int64_t token, int64_t excluded_logit) {
  require(excluded_logit < 0 || label != excluded_logit, "token ", token, " is the label ", label,
          ", whose logit is left out of the softmax; a label must be another id");
}

}  // namespace bdlm
