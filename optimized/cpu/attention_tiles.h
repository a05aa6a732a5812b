#pragma once
// The operands of one attention tile: query rows by keys, of one KV head, copied into cache.
//
// Lanes are query rows, so that maxima, sums and masks of the softmax need no work across lanes.

#include <array>
#include <cstdint>
#include <vector>

#include "optimized/cpu/aligned.h"
#include "optimized/cpu/attention_problem.h"
#include "optimized/cpu/panel_product.h"

namespace bdlm::cpu {

inline constexpr int64_t lanes = panel_width;
/// Tile rows and keys of a tile. Sums over keys, or over rows, are chains of at most as many terms,
/// and then sums of such sums: the "chain" of the contracts.
inline constexpr int64_t query_tile = 64;
inline constexpr int64_t key_tile = 64;
inline constexpr int64_t tile_panels = query_tile / lanes;

/// Key rows in cache are so many floats apart.
constexpr int64_t padded(int64_t head_dim) {
  return round_up(head_dim, panel_width);
}

/// The keys of one key tile that a panel works on, relative to the start of the tile.
struct PanelSpan {
  /// What any lane sees lies in [begin, end).
  int64_t begin = 0, end = 0;
  /// Some lane does not see all of that.
  bool partial = false;
  /// Lane i sees [first[i], last[i]).
  alignas(32) std::array<int32_t, lanes> first{};
  alignas(32) std::array<int32_t, lanes> last{};
  int64_t size() const { return end - begin; }
};

/// Up to `query_tile` tile rows. Tile row m of KV head h is query row m / group and query head
/// h * group + m % group, m counted from the first tile's first.
class QueryTile {
 public:
  void set(const AttentionProblem& problem, int64_t kv_head, int64_t tile);

  /// The number of tiles of one KV head.
  static int64_t count(const AttentionShape& shape) {
    return (shape.rows * shape.group() + query_tile - 1) / query_tile;
  }

  int64_t size() const { return size_; }
  int64_t panels() const { return (size_ + lanes - 1) / lanes; }
  int64_t row(int64_t m) const { return (first_ + m) / group_; }
  int64_t head(int64_t m) const { return kv_head_ * group_ + (first_ + m) % group_; }
  const Interval& seen(int64_t key_set, int64_t m) const { return seen_[key_set][m]; }
  /// Tile row m sees nothing after all.
  void hide(int64_t m);
  /// All keys of a set that are seen by any row lie in here.
  Interval cover(int64_t key_set) const;
  /// What panel p sees of the keys in `tile`.
  PanelSpan span(int64_t key_set, int64_t p, const Interval& tile) const;

  /// Panels [panel][channel][lane] of a tensor (R, Hq, D); 0 in lanes beyond the tile.
  void load_panels(const TensorView& tensor, Floats& panels);
  /// Rows (panels * lanes, padded D) of a tensor (R, Hq, D), with 0 around. Returns whether all
  /// values are finite.
  bool load_rows(const TensorView& tensor, Floats& rows) const;

 private:
  int64_t kv_head_ = 0, group_ = 1, head_dim_ = 1, first_ = 0, size_ = 0, key_sets_ = 0;
  std::array<std::array<Interval, query_tile>, most_key_sets> seen_;
  std::vector<float> one_row_;
};

/// The spans of all panels in a key tile; returns the keys that any of them needs, relative to the
/// tile.
Interval panel_spans(const QueryTile& query, int64_t key_set, const Interval& tile,
                     std::array<PanelSpan, tile_panels>& spans);

/// Rows (key_tile, padded D) of the keys `needed`, relative to `tile_begin`, of one head of a
/// tensor (N, Hkv, D); rows that are not needed stay what they were. Returns whether all values are
/// finite.
bool load_keys(const TensorView& tensor, int64_t kv_head, int64_t head_dim, int64_t tile_begin,
               const Interval& needed, Floats& rows);

// Products where a masked operand is not finite, so that its product with 0 would be NaN. They give
// the same bits as panel_product on values that are finite.

/// out [channel][lane] += sum over the keys that the lane sees of weight [key][lane] *
/// rows (key, padded D). weight and rows are relative to the tile.
void seen_product(const PanelSpan& span, int64_t head_dim, const float* rows, const float* weight,
                  float* out);
/// out (key, padded D) += sum over the lanes that see the key of weight [key][lane] *
/// rows (lane, padded D).
void seen_outer_product(const PanelSpan& span, int64_t head_dim, const float* weight,
                        const float* rows, float* out);

}  // namespace bdlm::cpu
