#pragma once
// Attention over intervals of keys, accumulating into a state of outputs and log-sum-exps.

#include <span>
#include <vector>

#include "reference/base/parallel_for.h"
#include "reference/math/attention_grid.h"
#include "reference/math/merge.h"

namespace bdlm {

/// One thread's arrays and inner steps of the forward.
template <class T>
class AttentionForward {
 public:
  using L = LogDomain<T>;
  static constexpr int64_t lanes = Tile<T>::lanes;

  void run(const AttentionGrid<T>& grid, int64_t kv_head, int64_t query_tile, const T& scale,
           std::span<const Interval> keys, const T* q, const T* k, const T* v, T* o, T* lse) {
    const int64_t channels = padded_channels<T>(grid.shape.head_dim);
    query_.set(grid.shape, kv_head, grid.query_rows(query_tile), keys);
    if (query_.cover().empty()) {
      return;
    }
    query_.load_panels(q, q_panels_);
    o_panels_.assign(query_.panels() * channels * lanes, T(0));
    row_max_.resize(query_.panels());
    sum_.resize(query_.panels());
    for (int64_t p = 0; p < query_.panels(); ++p) {
      row_max_[p].fill(L::empty());
      sum_[p].fill(T(0));
    }
    scores_.resize(grid.key_tile * lanes);
    grid.for_key_tiles(query_.cover(), [&](int64_t t) {
      const Interval tile = grid.key_rows(t);
      const Interval needed = panel_keys(query_, tile, keys_);
      if (needed.empty()) {
        return;
      }
      k_.load(grid.shape, kv_head, k, tile, needed);
      v_.load(grid.shape, kv_head, v, tile, needed);
      for (int64_t p = 0; p < query_.panels(); ++p) {
        attend(p, channels, scale);
      }
    });
    finish(grid.shape.head_dim, channels, o, lse);
  }

 private:
  /// Panel p on the loaded keys.
  void attend(int64_t p, int64_t channels, const T& scale) {
    const PanelKeys<T>& keys = keys_[p];
    const int64_t n = keys.size();
    if (n == 0) {
      return;
    }
    T* s = scores_.data();
    T* out = o_panels_.data() + p * channels * lanes;
    Tile<T>::panel_product(n, channels, k_.row(keys.begin), k_.stride(), 1,
                           q_panels_.data() + p * channels * lanes, s, false);
    typename Tile<T>::Lanes factor;
    if (Tile<T>::online_softmax(n, scale, keys.partial, keys.bounds, s, row_max_[p], sum_[p],
                                factor)) {
      Tile<T>::scale_panel(channels, factor, out);
    }
    if (keys.partial && !v_.finite()) {
      panel_product_seen(keys, channels, v_.row(keys.begin), v_.stride(), s, out);
    } else {
      Tile<T>::panel_product(channels, n, v_.row(keys.begin), 1, v_.stride(), s, out, true);
    }
  }

  /// Normalises and merges into the state of every row that has keys.
  void finish(int64_t d, int64_t channels, T* o, T* lse) {
    part_.resize(d);
    for (int64_t m = 0; m < query_.size(); ++m) {
      const int64_t p = m / lanes;
      const int64_t lane = m % lanes;
      const T& sum = sum_[p][lane];
      if (query_.seen(m).empty()) {
        continue;
      }
      const T inverse = T(1) / sum;  // sum is 0 if all scores are -inf: then z is -inf
      for (int64_t x = 0; x < d; ++x) {
        part_[x] = o_panels_[(p * channels + x) * lanes + lane] * inverse;
      }
      merge_unchecked(d, o + query_.offset(m, d), lse[query_.offset(m, 1)], part_.data(),
                      L::lse(L::shift(row_max_[p][lane]), sum));
    }
  }

  QueryTile<T> query_;
  KeyRows<T> k_, v_;
  std::vector<PanelKeys<T>> keys_;
  AlignedVector<T> q_panels_, o_panels_;  // [panel][channel][lane]
  AlignedVector<T> scores_;               // [key][lane] of one panel
  std::vector<typename Tile<T>::Lanes> row_max_, sum_;
  std::vector<T> part_;
};

/// Attention of R query rows on N keys, merged into a state. Row i sees the keys `keys[i]`.
///
///   S = scale * q.k,  z = log sum exp(S),  O = sum exp(S - z) v,  (o, lse) = merge((o, lse), (O,
///   z))
///
/// q (R, Hq, D), k and v (N, Hkv, D), o (R, Hq, D) and lse (R, Hq), all contiguous. An empty state
/// is (0, LogDomain<T>::empty()). Rows without keys are left alone. Infinities and NaN reach the
/// rows that see them, and no others. Throws InputError on a bad shape or interval, or lse of +inf.
template <class T>
void attention_forward(const AttentionShape& shape, const T& scale, std::span<const Interval> keys,
                       const T* q, const T* k, const T* v, T* o, T* lse,
                       const AttentionOptions& options = {}) {
  const AttentionGrid<T> grid(shape, keys, options);
  require_finite_or_empty(grid.rows * shape.q_heads, lse);
  std::vector<AttentionForward<T>> threads(max_threads());
  parallel_for(shape.kv_heads * grid.query_tiles, [&](int64_t unit, int thread) {
    // Neighbouring units share a head, hence K and V.
    threads[thread].run(grid, unit / grid.query_tiles, unit % grid.query_tiles, scale, keys, q, k,
                        v, o, lse);
  });
}

}  // namespace bdlm
