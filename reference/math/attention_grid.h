#pragma once
// The options of an attention call and its division into units of work.

#include <span>
#include <vector>

#include "reference/math/attention_tiles.h"

namespace bdlm {

struct AttentionOptions {
  /// Visits key tiles (and, in the backward, query tiles) in the opposite order: the same function
  /// with other rounding, by which tolerances are calibrated.
  bool reverse_tiles = false;
  /// Query rows times group, and keys, of a tile; 0 for the default. They affect rounding.
  int64_t query_tile = 0;
  int64_t key_tile = 0;
};

/// The units of work of one attention call.
template <class T>
struct AttentionGrid {
  AttentionGrid(const AttentionShape& s, std::span<const Interval> keys,
                const AttentionOptions& options)
      : shape(s), rows(static_cast<int64_t>(keys.size())), reverse(options.reverse_tiles) {
    require(s.q_heads >= 1 && s.kv_heads >= 1 && s.head_dim >= 1, "attention shape is ", s.q_heads,
            " query heads, ", s.kv_heads, " KV heads, head_dim ", s.head_dim,
            "; each must be at least 1");
    require(s.q_heads % s.kv_heads == 0, "there are ", s.q_heads, " query heads and ", s.kv_heads,
            " KV heads; the first must be a multiple of the second");
    require(options.query_tile >= 0 && options.key_tile >= 0, "tile sizes are ", options.query_tile,
            " and ", options.key_tile, "; they must be at least 1, or 0 for the default");
    int64_t last = 0;
    for (const Interval& i : keys) {
      require(i.empty() || i.begin >= 0, "a row's key interval is ", i,
              "; it must begin at 0 or later");
      last = std::max(last, i.empty() ? 0 : i.end);
    }
    const int64_t query_tile = options.query_tile > 0 ? options.query_tile : default_query_tile;
    const int64_t wanted = options.key_tile > 0 ? options.key_tile : default_key_tile;
    rows_per_tile = std::max<int64_t>(1, query_tile / s.group());
    key_tile = round_up(wanted, key_step<T>);
    query_tiles = (rows + rows_per_tile - 1) / rows_per_tile;
    key_tiles = (last + key_tile - 1) / key_tile;
  }

  Interval query_rows(int64_t i) const {
    return {i * rows_per_tile, std::min(rows, (i + 1) * rows_per_tile)};
  }
  Interval key_rows(int64_t t) const { return {t * key_tile, (t + 1) * key_tile}; }
  /// Calls f(tile) for the key tiles that meet `cover`, in the order of the options.
  template <class F>
  void for_key_tiles(const Interval& cover, const F& f) const {
    const int64_t first = cover.begin / key_tile;
    const int64_t count = cover.empty() ? 0 : (cover.end - 1) / key_tile + 1 - first;
    for (int64_t i = 0; i < count; ++i) {
      f(first + (reverse ? count - 1 - i : i));
    }
  }

  // A tile of K and of V and the panels of a tile of queries fit a second-level cache of 1 MiB.
  static constexpr int64_t default_query_tile = 16 * Tile<T>::lanes;
  static constexpr int64_t default_key_tile = 8 * Tile<T>::lanes;

  AttentionShape shape;
  int64_t rows, rows_per_tile, key_tile, query_tiles, key_tiles;
  bool reverse;
};

/// What the panels of a query tile see of one key tile. Returns the span of keys seen at all.
template <class T>
Interval panel_keys(const QueryTile<T>& query, const Interval& tile,
                    std::vector<PanelKeys<T>>& keys) {
  keys.resize(query.panels());
  Interval needed{0, 0};
  for (int64_t p = 0; p < query.panels(); ++p) {
    keys[p] = query.keys_of_panel(p, tile);
  }
  for (int64_t m = 0; m < query.size(); ++m) {
    const Interval seen = intersect(query.seen(m), tile);
    if (!seen.empty()) {
      needed = needed.empty()
                   ? seen
                   : Interval{std::min(needed.begin, seen.begin), std::max(needed.end, seen.end)};
    }
  }
  return needed;
}

/// Throws InputError if a state's log-sum-exp is +inf.
template <class T>
void require_finite_or_empty(int64_t count, const T* lse) {
  for (int64_t i = 0; i < count; ++i) {
    require(!LogDomain<T>::is_positive_infinity(lse[i]), "lse[", i,
            "] is +inf; a log-sum-exp must be finite, or -inf for no keys");
  }
}

}  // namespace bdlm
