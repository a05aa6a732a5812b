#pragma once
// The backward of attention on one set of keys, from the merged outputs and log-sum-exps.

#include <span>
#include <vector>

#include "reference/base/parallel_for.h"
#include "reference/math/attention_grid.h"

namespace bdlm {

/// The tensors of one backward call; shapes as in attention_backward.
template <class T>
struct AttentionGradients {
  std::span<const Interval> keys;
  const T *q, *k, *v, *o, *lse, *d_o;
  T *dq, *dk, *dv;
};

/// One thread's arrays and inner steps of the backward.
template <class T>
class AttentionBackward {
 public:
  using L = LogDomain<T>;
  static constexpr int64_t lanes = Tile<T>::lanes;

  /// Loads a query tile; false if it sees no keys.
  bool load(const AttentionGrid<T>& grid, int64_t kv_head, int64_t query_tile,
            const AttentionGradients<T>& x) {
    const int64_t d = grid.shape.head_dim;
    channels_ = padded_channels<T>(d);
    kv_head_ = kv_head;
    query_.set(grid.shape, kv_head, grid.query_rows(query_tile), x.keys);
    if (query_.cover().empty()) {
      return false;
    }
    query_.load_panels(x.q, q_panels_);
    query_.load_panels(x.d_o, do_panels_);
    const bool q_finite = query_.load_rows(x.q, q_rows_);
    finite_ = query_.load_rows(x.d_o, do_rows_) && q_finite;
    z_.resize(query_.panels());
    delta_.resize(query_.panels());
    for (int64_t m = 0; m < query_.panels() * lanes; ++m) {
      T z(0), delta(0);
      if (m < query_.size()) {
        z = x.lse[query_.offset(m, 1)];
        if (L::is_empty(z)) {
          query_.hide(m);
          z = T(0);
        } else {
          const T* o = x.o + query_.offset(m, d);
          const T* d_o = x.d_o + query_.offset(m, d);
          for (int64_t i = 0; i < d; ++i) {
            delta += d_o[i] * o[i];
          }
        }
      }
      z_[m / lanes][m % lanes] = z;
      delta_[m / lanes][m % lanes] = delta;
    }
    return true;
  }

  void clear_dq() { dq_panels_.assign(query_.panels() * channels_ * lanes, T(0)); }

  /// The loaded query tile on key tile t: adds to the tile's dQ and to dk, dv, as asked.
  void pair(const AttentionGrid<T>& grid, int64_t t, const T& scale, const AttentionGradients<T>& x,
            bool want_dq, bool want_dkv) {
    const Interval tile = grid.key_rows(t);
    const Interval needed = panel_keys(query_, tile, keys_);
    if (needed.empty()) {
      return;
    }
    k_.load(grid.shape, kv_head_, x.k, tile, needed);
    v_.load(grid.shape, kv_head_, x.v, tile, needed);
    p_.resize(query_.panels() * grid.key_tile * lanes);
    ds_.resize(p_.size());
    dv_operands_.assign(query_.panels(), {});
    dk_operands_.assign(query_.panels(), {});
    const int64_t d = grid.shape.head_dim;
    const int64_t stride = row_stride<T>(d);
    bool partial = false;
    for (int64_t i = 0; i < query_.panels(); ++i) {
      const PanelKeys<T>& keys = keys_[i];
      if (keys.size() == 0) {
        continue;
      }
      T* p = p_.data() + i * grid.key_tile * lanes;
      T* ds = ds_.data() + i * grid.key_tile * lanes;
      probabilities(i, scale, p + keys.begin * lanes, ds + keys.begin * lanes);
      if (want_dq) {
        add_dq(i, ds + keys.begin * lanes);
      }
      partial = partial || keys.partial;
      const int64_t rows = i * lanes * stride;
      dv_operands_[i] = {p, do_rows_.data() + rows, keys.begin, keys.end};
      dk_operands_[i] = {ds, q_rows_.data() + rows, keys.begin, keys.end};
    }
    if (!want_dkv) {
      return;
    }
    const int64_t m = needed.end - tile.begin;
    const int64_t key_stride = grid.shape.kv_heads * d;
    const int64_t first = (tile.begin * grid.shape.kv_heads + kv_head_) * d;
    if (partial && !finite_) {
      const std::span<const PanelKeys<T>> seen(keys_);
      outer_product_seen<T>(seen, dv_operands_, m, d, stride, x.dv + first, key_stride);
      outer_product_seen<T>(seen, dk_operands_, m, d, stride, x.dk + first, key_stride);
    } else {
      Tile<T>::outer_product(m, d, dv_operands_, stride, x.dv + first, key_stride);
      Tile<T>::outer_product(m, d, dk_operands_, stride, x.dk + first, key_stride);
    }
  }

  /// Adds the tile's dQ to the tensor.
  void store_dq(int64_t d, T* dq) const {
    for (int64_t m = 0; m < query_.size(); ++m) {
      T* to = dq + query_.offset(m, d);
      const T* from = dq_panels_.data() + m / lanes * channels_ * lanes + m % lanes;
      for (int64_t i = 0; i < d; ++i) {
        to[i] += from[i * lanes];
      }
    }
  }

  const QueryTile<T>& query() const { return query_; }

 private:
  /// P and dS of panel i on the loaded keys.
  void probabilities(int64_t i, const T& scale, T* p, T* ds) {
    const PanelKeys<T>& keys = keys_[i];
    const int64_t offset = i * channels_ * lanes;
    Tile<T>::panel_product(keys.size(), channels_, k_.row(keys.begin), k_.stride(), 1,
                           q_panels_.data() + offset, p, false);
    Tile<T>::panel_product(keys.size(), channels_, v_.row(keys.begin), v_.stride(), 1,
                           do_panels_.data() + offset, ds, false);
    Tile<T>::score_gradient(keys.size(), scale, keys.partial, keys.bounds, z_[i], delta_[i], p, ds);
  }

  void add_dq(int64_t i, const T* ds) {
    const PanelKeys<T>& keys = keys_[i];
    T* out = dq_panels_.data() + i * channels_ * lanes;
    if (keys.partial && !k_.finite()) {
      panel_product_seen(keys, channels_, k_.row(keys.begin), k_.stride(), ds, out);
    } else {
      Tile<T>::panel_product(channels_, keys.size(), k_.row(keys.begin), 1, k_.stride(), ds, out,
                             true);
    }
  }

  QueryTile<T> query_;
  KeyRows<T> k_, v_;
  int64_t channels_ = 0, kv_head_ = 0;
  bool finite_ = true;
  std::vector<PanelKeys<T>> keys_;
  AlignedVector<T> q_panels_, do_panels_, dq_panels_;  // [panel][channel][lane]
  AlignedVector<T> q_rows_, do_rows_;                  // (panels * lanes, row_stride)
  AlignedVector<T> p_, ds_;                            // [panel][key][lane]
  std::vector<typename Tile<T>::Lanes> z_, delta_;     // [panel][lane]
  std::vector<OuterOperand<T>> dv_operands_, dk_operands_;
};

/// Gradients of attention on one set of keys, from the *merged* state: with o and lse those over
/// all keys that the rows attend, in this call or in others,
///
///   P = exp(S - lse), 0 where not seen or lse = -inf;  delta = sum_d d_o o;  dS = P (d_o.v -
///   delta) dv += P^T d_o,  dq += scale dS k,  dk += scale dS^T q
///
/// Shapes as in attention_forward; d_o and dq are shaped as q, dk and dv as k. Sums are taken in
/// one fixed order. Throws as attention_forward.
template <class T>
void attention_backward(const AttentionShape& shape, const T& scale, std::span<const Interval> keys,
                        const T* q, const T* k, const T* v, const T* o, const T* lse, const T* d_o,
                        T* dq, T* dk, T* dv, const AttentionOptions& options = {}) {
  const AttentionGrid<T> grid(shape, keys, options);
  require_finite_or_empty(grid.rows * shape.q_heads, lse);
  const AttentionGradients<T> x{keys, q, k, v, o, lse, d_o, dq, dk, dv};
  std::vector<AttentionBackward<T>> threads(max_threads());
  const auto ordered = [&](int64_t i) { return grid.reverse ? grid.query_tiles - 1 - i : i; };

  if (shape.kv_heads >= max_threads()) {
    parallel_for(shape.kv_heads, [&](int64_t head, int thread) {
      AttentionBackward<T>& work = threads[thread];
      for (int64_t i = 0; i < grid.query_tiles; ++i) {
        if (work.load(grid, head, ordered(i), x)) {
          work.clear_dq();
          grid.for_key_tiles(work.query().cover(),
                             [&](int64_t t) { work.pair(grid, t, scale, x, true, true); });
          work.store_dq(shape.head_dim, dq);
        }
      }
    });
    return;
  }
  // Fewer heads than threads: dQ by query tiles, then dK and dV by key tiles, each sum in the same
  // order as above. P is computed twice, which is 7 products instead of 5.
  parallel_for(shape.kv_heads * grid.query_tiles, [&](int64_t unit, int thread) {
    AttentionBackward<T>& work = threads[thread];
    if (work.load(grid, unit / grid.query_tiles, unit % grid.query_tiles, x)) {
      work.clear_dq();
      grid.for_key_tiles(work.query().cover(),
                         [&](int64_t t) { work.pair(grid, t, scale, x, true, false); });
      work.store_dq(shape.head_dim, dq);
    }
  });
  parallel_for(shape.kv_heads * grid.key_tiles, [&](int64_t unit, int thread) {
    const int64_t tile = unit % grid.key_tiles;
    for (int64_t i = 0; i < grid.query_tiles; ++i) {
      AttentionBackward<T>& work = threads[thread];
      const Interval rows = grid.query_rows(ordered(i));
      const auto seen = keys.subspan(rows.begin, rows.size());
      if (std::any_of(
              seen.begin(), seen.end(),
              [&](const Interval& s) { return !intersect(s, grid.key_rows(tile)).empty(); }) &&
          work.load(grid, unit / grid.key_tiles, ordered(i), x)) {
        work.pair(grid, tile, scale, x, false, true);
      }
    }
  });
}

}  // namespace bdlm
