#pragma once
// The instructions of a rank program: what one rank does in one attention layer.
//
// A scheme (CP, BP, CSBP) is a builder that writes such a list; `run` (interpreter.h) executes it
// over an Engine, which computes, and a Communicator, which moves rows. Coverage checks, drawings
// and the performance model read the same list. Steps hold integers only.
//
// Storage of a rank during a layer:
// - *buffers* of K and V rows, and as many gradient rows. Buffer 0 holds the rank's own rows;
// others
//   are filled by Gather or Exchange.
// - *states*: for each of the rank's query rows a normalised O and its row log-sum-exp z. A state
//   begins as (0, -inf), "attended nothing". State 0 is the layer's output.

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "reference/layout/row_set.h"

namespace bdlm {

/// The rows that each rank contributes to a collective, by rank.
using ShardMap = std::vector<RowSet>;

/// Starts an all-gather of own K and V rows. Every rank contributes `padded_rows` rows, of which
/// the first `shards[rank].size()` count. After the wait, `buffer` holds the rows of all shards.
struct Gather {
  int token = 0;
  int buffer = 0;
  std::shared_ptr<const ShardMap> shards;
  int64_t padded_rows = 0;
};

/// Rows for, or from, one peer.
struct Message {
  int peer = 0;
  RowSet rows;
};

/// Starts a grouped send and receive of own K and V rows; what comes in goes to `buffer`.
struct Exchange {
  int token = 0;
  int buffer = 0;
  std::vector<Message> sends;
  std::vector<Message> receives;
};

/// Completes the transfer that was started under `token`.
struct Wait {
  int token = 0;
};

/// Attention of the bands' query rows over keys of `buffer`; its (O, z) is merged into `state`.
/// Where `from_state` is false the state is known to be empty for all of these rows. Several bands
/// may name the same row, with disjoint keys.
struct Attend {
  int buffer = 0;
  int state = 0;
  bool from_state = false;
  std::vector<Band> bands;
};

/// Merges state `from` into state `into`, all rows.
struct Merge {
  int into = 0;
  int from = 0;
};

/// Backward of the bands' pairs from the merged O and z of state 0: adds to dQ of the rows and to
/// the gradients of `buffer`.
struct AttendBackward {
  int buffer = 0;
  std::vector<Band> bands;
};

/// Starts a reduce-scatter of the gradients of `buffer`; after the wait the sum over ranks of this
/// rank's shard has been added to the gradients of buffer 0. `shards` and `padded_rows` as in
/// Gather.
struct ReduceScatter {
  int token = 0;
  int buffer = 0;
  std::shared_ptr<const ShardMap> shards;
  int64_t padded_rows = 0;
};

/// Starts the return of an Exchange: `sends` are gradients of `buffer` for their owners; what
/// `receives` brings has, after the wait, been added to the gradients of buffer 0.
struct ExchangeBack {
  int token = 0;
  int buffer = 0;
  std::vector<Message> sends;
  std::vector<Message> receives;
};

using Step = std::variant<Gather, Exchange, Wait, Attend, Merge, AttendBackward, ReduceScatter,
                          ExchangeBack>;

/// One rank's program for one attention layer.
struct RankPlan {
  std::string scheme;
  int rank = 0;
  int ranks = 1;
  /// The rows of which this rank has Q, K and V: its query rows, and buffer 0.
  RowSet rows;
  /// The rows of each buffer; `buffers[0]` equals `rows`.
  std::vector<RowSet> buffers;
  int states = 1;
  std::vector<Step> forward;
  std::vector<Step> backward;
};

}  // namespace bdlm
