#pragma once
// T0, second half: does every row of K and V arrive before it is attended, and every gradient
// return to its owner, once?

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "conformance/suites/violations.h"
#include "reference/schedule/step.h"

namespace bdlm {

/// Follows the rank programs of one layer without computing. Ranks are given one at a time, so that
/// a thousand of them need not be in memory together.
///
/// Each rank by itself: keys of an attend have arrived in its buffer; `from_state` is false only
/// where nothing was attended before; other states are merged into state 0; every transfer is
/// waited for; the gradients of every buffer but the own are returned once, whole, after the last
/// step that adds to them. Between ranks: all start the same transfers in the same order, an
/// exchange also where they have nothing to send; collectives agree in shards and padding; every
/// message sent is expected by its peer, with the same rows; what is sent or returned is held by
/// its owner.
class DataFlow {
 public:
  explicit DataFlow(Violations& out) : out_(out) {}

  void follow(const RankPlan& plan);
  /// After the last rank: the agreement between ranks.
  void finish();

 private:
  enum class Kind : uint8_t { gather, reduce_scatter, exchange, exchange_back };
  /// A transfer that all ranks start; shards and padding only of collectives.
  struct Shared {
    Kind kind = Kind::gather;
    std::shared_ptr<const ShardMap> shards;
    int64_t padded_rows = 0;
  };
  friend class RankFlow;

  Violations& out_;
  int ranks_seen_ = 0;
  std::vector<Shared> transfers_;                                // of the first rank
  std::map<std::pair<int, int>, std::vector<RowSet>> sent_;      // by (from, to), in order
  std::map<std::pair<int, int>, std::vector<RowSet>> expected_;  // the same, by the receiver
};

}  // namespace bdlm
