#pragma once
// How one attention layer was divided: what decides where its outputs may be rounded.

#include <cstdint>
#include <span>
#include <vector>

#include "conformance/judge/attention_arrays.h"
#include "reference/layout/sequence.h"
#include "reference/layout/visibility.h"
#include "reference/schedule/step.h"

namespace bdlm {

/// Keys that one attention call adds to a row's state.
struct KeyPart {
  Stream stream = Stream::clean;
  Interval keys;
  /// Counts the row's calls from 0; a call may bring keys of both streams. Every call after the
  /// first is a merge.
  int64_t part = 0;
  friend bool operator==(const KeyPart&, const KeyPart&) = default;
};

/// What happens to dK and dV that several ranks contribute to.
enum class GradientReturn : uint8_t {
  local,    ///< one rank has all rows that see the key
  reduced,  ///< a reduction over all ranks, in the contract's format and order
  added,    ///< others' parts are sent in the contract's format and added to the owner's
};

/// A sequence, and by stream and position who computes what, in which order.
struct Decomposition {
  Sequence sequence = Sequence::uniform(1, 1);
  int ranks = 1;
  /// What is added to a rank's index where it is named to people.
  int first_rank = 0;
  /// The rank that computes a row and owns its gradients; -1 where none does. Such a row has O = 0,
  /// LSE = -inf and dQ = 0, and adds to no gradient.
  ByStream<int> row_rank;
  /// The keys of each row, parts in ascending order; together exactly the keys that it sees.
  ByStream<std::vector<KeyPart>> parts;
  std::array<GradientReturn, 2> gradient_return{GradientReturn::local, GradientReturn::local};

  const std::vector<KeyPart>& parts_of(Stream stream, int64_t row) const {
    return parts[static_cast<int>(stream)][row];
  }
};

/// One rank, every row in one call.
Decomposition whole(const Sequence& sequence, const LayerRule& rule);

/// Chunks by position in both streams, and a row's keys in one call for every rank that owns some
/// of them, in rank order: up to `ranks` parts. Gradients are reduced. Throws InputError unless
/// ranks is 1 to the length.
Decomposition split_by_owner(const Sequence& sequence, const LayerRule& rule, int ranks);

/// What rank programs do: each Attend is a part. A row that several ranks hold is the first one's.
/// To judge one rank by itself (BP, which reduces nothing), give its plan alone: then it is the
/// only rank, with all its rows. Throws InputError where the programs attend other keys than a row
/// sees, or one twice.
Decomposition of_plans(const Sequence& sequence, const LayerRule& rule,
                       std::span<const RankPlan> plans);

}  // namespace bdlm
