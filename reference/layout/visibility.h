#pragma once
// Which keys a query row may see.

#include <cstdint>
#include <vector>

#include "reference/layout/band.h"
#include "reference/layout/sequence.h"

namespace bdlm {

/// Which clean keys a clean row sees: its whole block, or nothing after itself.
enum class CleanRule : uint8_t { block_causal, token_causal };
const char* name(CleanRule rule);

/// The mask of one attention layer.
struct LayerRule {
  CleanRule clean = CleanRule::block_causal;
  /// Keys a sliding window holds, the row's own included; 0 for a full layer.
  int64_t window = 0;
  friend bool operator==(const LayerRule&, const LayerRule&) = default;
};

/// The keys that one row sees: at most one interval of either stream. With `doc` the start of the
/// row's document, `s` and `e` the ends of its block and w the window:
///
///   corrupted row -> clean      [doc, s)   or   [max(doc, s - (w - 1)), s)
///   corrupted row -> corrupted  [s, e), never windowed
///   clean row i   -> clean      [doc, e)   or   [max(doc, i + 1 - w), e)       block-causal
///                               [doc, i+1) or   [max(doc, i + 1 - w), i + 1)   token-causal
///   clean row     -> corrupted  never; padding sees nothing and is seen by nothing
Interval visible(const Sequence& sequence, const LayerRule& rule, Stream query, int64_t row,
                 Stream key);

/// The same for a run of rows, as bands in ascending order; rows that see nothing are in none.
std::vector<Band> visible_bands(const Sequence& sequence, const LayerRule& rule, Stream query,
                                const Interval& rows, Stream key);

}  // namespace bdlm
