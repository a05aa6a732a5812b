#pragma once
// The operands of one attention tile: query rows by keys, of one KV head, copied into cache.

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "reference/base/error.h"
#include "reference/math/panel.h"

namespace bdlm {

/// Query head h reads KV head h / (q_heads / kv_heads).
struct AttentionShape {
  int64_t q_heads = 1;
  int64_t kv_heads = 1;
  int64_t head_dim = 1;

  /// Query heads per KV head.
  int64_t group() const { return q_heads / kv_heads; }
};

/// The keys of one key tile that a panel works on, relative to the tile's start.
template <class T>
struct PanelKeys {
  int64_t begin = 0, end = 0;       // covers what any lane sees; multiples of key_step
  bool partial = false;             // some lane sees less than that
  typename Tile<T>::Bounds bounds;  // per lane, relative to `begin`
  int64_t size() const { return end - begin; }
};

/// Key counts per panel are multiples of this.
template <class T>
constexpr int64_t key_step = std::lcm(Tile<T>::strip, Tile<T>::outer_rows);

/// Query rows [rows.begin, rows.end) of all query heads of one KV head. Tile row m is query row
/// rows.begin + m / group and query head kv_head * group + m % group.
template <class T>
class QueryTile {
 public:
  static constexpr int64_t lanes = Tile<T>::lanes;

  void set(const AttentionShape& shape, int64_t kv_head, Interval rows,
           std::span<const Interval> keys) {
    shape_ = shape;
    kv_head_ = kv_head;
    rows_ = rows;
    size_ = rows.size() * shape.group();
    panels_ = (size_ + lanes - 1) / lanes;
    seen_.assign(panels_ * lanes, Interval{0, 0});
    for (int64_t m = 0; m < size_; ++m) {
      seen_[m] = keys[rows.begin + m / shape.group()];
    }
    cover_ = span_of(seen_);
  }

  int64_t size() const { return size_; }
  int64_t panels() const { return panels_; }
  /// All keys seen by any row lie in here.
  Interval cover() const { return cover_; }
  const Interval& seen(int64_t m) const { return seen_[m]; }
  /// A row of the tile that sees nothing after all.
  void hide(int64_t m) { seen_[m] = {0, 0}; }

  /// The offset of tile row m in a tensor (R, Hq, channels per head).
  int64_t offset(int64_t m, int64_t channels) const {
    const int64_t group = shape_.group();
    const int64_t row = rows_.begin + m / group;
    return (row * shape_.q_heads + kv_head_ * group + m % group) * channels;
  }

  /// Panels [panel][channel][lane] of a tensor (R, Hq, D).
  void load_panels(const T* tensor, AlignedVector<T>& panels) const {
    const int64_t d = shape_.head_dim;
    const int64_t panel_size = padded_channels<T>(d) * lanes;
    panels.resize(panels_ * panel_size);
    for (int64_t p = 0; p < panels_; ++p) {
      load_panel(
          std::min(lanes, size_ - p * lanes), d,
          [&](int64_t lane) { return tensor + offset(p * lanes + lane, d); },
          panels.data() + p * panel_size);
    }
  }

  /// Rows (panels * lanes, row_stride) of a tensor (R, Hq, D); 0 beyond the tile. Returns whether
  /// all values are finite.
  bool load_rows(const T* tensor, AlignedVector<T>& rows) const {
    const int64_t d = shape_.head_dim;
    const int64_t stride = row_stride<T>(d);
    rows.assign(panels_ * lanes * stride, T(0));
    bool finite = true;
    for (int64_t m = 0; m < size_; ++m) {
      const T* from = tensor + offset(m, d);
      std::copy_n(from, d, rows.data() + m * stride);
      finite = finite && Tile<T>::all_finite(d, from);
    }
    return finite;
  }

  /// What panel p sees of the keys in `tile`.
  PanelKeys<T> keys_of_panel(int64_t p, const Interval& tile) const {
    PanelKeys<T> out;
    const std::span<const Interval> seen(seen_.data() + p * lanes, lanes);
    const Interval all = intersect(span_of(seen), tile);
    if (all.empty()) {
      return out;
    }
    out.begin = (all.begin - tile.begin) / key_step<T> * key_step<T>;
    out.end = round_up(all.end - tile.begin, key_step<T>);
    const int64_t first = tile.begin + out.begin;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t begin = std::clamp<int64_t>(seen[lane].begin - first, 0, out.size());
      const int64_t end = std::min(seen[lane].end, tile.end) - first;
      out.bounds[lane] = {begin, std::max(begin, end)};
      out.partial = out.partial || out.bounds[lane] != Interval{0, out.size()};
    }
    return out;
  }

 private:
  static Interval span_of(std::span<const Interval> intervals) {
    Interval all{0, 0};
    for (const Interval& i : intervals) {
      if (!i.empty()) {
        all = all.empty() ? i : Interval{std::min(all.begin, i.begin), std::max(all.end, i.end)};
      }
    }
    return all;
  }

  AttentionShape shape_;
  int64_t kv_head_ = 0, size_ = 0, panels_ = 0;
  Interval rows_, cover_;
  std::vector<Interval> seen_;  // (panels * lanes)
};

/// Rows of K or V of one KV head.
template <class T>
class KeyRows {
 public:
  /// Copies the rows `needed` of a tensor (N, Hkv, D) to their places in `tile`, 0 elsewhere.
  void load(const AttentionShape& shape, int64_t kv_head, const T* tensor, const Interval& tile,
            const Interval& needed) {
    const int64_t d = shape.head_dim;
    stride_ = row_stride<T>(d);
    rows_.resize(round_up(tile.size(), key_step<T>) * stride_);
    finite_known_ = false;
    const int64_t begin = (needed.begin - tile.begin) / key_step<T> * key_step<T>;
    const int64_t end = round_up(needed.end - tile.begin, key_step<T>);
    begin_ = begin;
    end_ = end;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t key = tile.begin + i;
      T* to = rows_.data() + i * stride_;
      int64_t filled = 0;
      if (needed.contains(key)) {
        std::copy_n(tensor + (key * shape.kv_heads + kv_head) * d, d, to);
        filled = d;
      }
      std::fill(to + filled, to + stride_, T(0));
    }
  }

  const T* row(int64_t i) const { return rows_.data() + i * stride_; }
  int64_t stride() const { return stride_; }

  /// Whether all values are finite; computed when first asked.
  bool finite() {
    if (!finite_known_) {
      finite_ = Tile<T>::all_finite((end_ - begin_) * stride_, row(begin_));
      finite_known_ = true;
    }
    return finite_;
  }

 private:
  AlignedVector<T> rows_;
  int64_t stride_ = 0, begin_ = 0, end_ = 0;
  bool finite_ = true, finite_known_ = false;
};

// Products over exactly the pairs that are seen. The tile kernels multiply what is not seen by a
// zero weight, which infinities and NaN survive; where a tile holds such values and is only partly
// seen, these loops keep them from rows that do not see them. Where all is finite they give the
// kernels' bits.

/// c[x][lane] += sum over keys that the lane sees of a[key][x] p[key][lane]
template <class T>
void panel_product_seen(const PanelKeys<T>& keys, int64_t channels, const T* a, int64_t lda,
                        const T* p, T* c) {
  constexpr int64_t lanes = Tile<T>::lanes;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    for (int64_t x = 0; x < channels; ++x) {
      T sum(0);
      for (int64_t key = keys.bounds[lane].begin; key < keys.bounds[lane].end; ++key) {
        sum = Tile<T>::multiply_add(a[key * lda + x], p[key * lanes + lane], sum);
      }
      c[x * lanes + lane] += sum;
    }
  }
}

/// c[key][x] += sum over panels and lanes that see the key of a[key][lane] b[lane][x], for key < m
/// and x < n; keys[i] is what operands[i] sees.
template <class T>
void outer_product_seen(std::span<const PanelKeys<T>> keys,
                        std::span<const OuterOperand<T>> operands, int64_t m, int64_t n,
                        int64_t ldb, T* c, int64_t ldc) {
  constexpr int64_t lanes = Tile<T>::lanes;
  for (int64_t key = 0; key < m; ++key) {
    for (int64_t x = 0; x < n; ++x) {
      T sum(0);
      for (size_t i = 0; i < operands.size(); ++i) {
        for (int64_t lane = 0; lane < lanes; ++lane) {
          if (keys[i].bounds[lane].contains(key - keys[i].begin)) {
            sum = Tile<T>::multiply_add(operands[i].a[key * lanes + lane],
                                        operands[i].b[lane * ldb + x], sum);
          }
        }
      }
      c[key * ldc + x] += sum;
    }
  }
}

}  // namespace bdlm
