#pragma once
// The unit of attention work: a run of query rows and, for each row, one interval of keys.

#include <cstdint>
#include <limits>
#include <vector>

#include "reference/layout/interval.h"

namespace bdlm {

/// The two copies of every sequence.
enum class Stream : uint8_t { clean, corrupted };

inline const char* name(Stream s) {
  return s == Stream::clean ? "clean" : "corrupted";
}

/// Query row `i` of `rows` sees the keys `[max(keys.begin, i + begin_offset),
/// min(keys.end, i + end_offset))`. An offset of `none` takes no part. All positions are those of
/// the whole sequence. So one band holds a block (no offset), a causal triangle (`end_offset` 1) or
/// a sliding window of w keys (`begin_offset` 1 - w).
struct Band {
  static constexpr int64_t no_begin = std::numeric_limits<int64_t>::min() / 4;
  static constexpr int64_t no_end = std::numeric_limits<int64_t>::max() / 4;

  Stream query_stream = Stream::clean;
  Interval rows;
  Stream key_stream = Stream::clean;
  Interval keys;
  int64_t begin_offset = no_begin;
  int64_t end_offset = no_end;

  /// True when every row sees the same keys.
  bool rectangular() const { return begin_offset == no_begin && end_offset == no_end; }

  /// The keys that `row` sees; `{b, b}` when it sees none.
  Interval keys_of(int64_t row) const {
    const int64_t b = std::max(keys.begin, row + begin_offset);
    return {b, std::max(b, std::min(keys.end, row + end_offset))};
  }

  /// The number of (row, key) pairs.
  int64_t pairs() const;

  friend bool operator==(const Band&, const Band&) = default;
};

/// The same pairs, without the rows that see nothing.
Band trim(Band band);

/// The pairs of `bands` whose key is in `keys`, trimmed; a band may fall into several.
std::vector<Band> restrict_keys(const std::vector<Band>& bands, const IntervalSet& keys);

/// The number of pairs of all bands together.
int64_t pairs(const std::vector<Band>& bands);

}  // namespace bdlm
