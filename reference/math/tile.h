#pragma once
// The inner loops of attention and of linear layers, on tiles that lie in cache.
//
// Query rows (tokens) are taken `lanes` at a time as a *panel*: panel[x][lane], the lanes
// contiguous, x a channel or a key. Every product keeps the lanes apart, so what is computed for
// one row depends on no other row of its panel, nor on which rows share it.
//
// The primary template serves every scalar; tile_avx2.h holds the same loops for double.

#include <array>
#include <cstdint>
#include <span>

#include "reference/layout/interval.h"
#include "reference/math/log_domain.h"

namespace bdlm {

/// One panel as the left side of `outer_product`.
template <class T>
struct OuterOperand {
  const T* a = nullptr;  // [m][lanes]
  const T* b = nullptr;  // (lanes, n), row stride ldb
  /// The range of m that this panel takes part in; multiples of outer_rows, or the end.
  int64_t begin = 0, end = 0;
};

template <class T>
struct Tile {
  static constexpr int64_t lanes = 4;
  /// Steps of m in panel_product, and of m and n in outer_product: sizes are padded to these.
  static constexpr int64_t strip = 1, outer_rows = 1, outer_columns = 1;

  /// For each lane, an interval of the keys of a panel.
  using Bounds = std::array<Interval, lanes>;
  using Lanes = std::array<T, lanes>;

  /// a b + c, rounded as the products below round it.
  static T multiply_add(const T& a, const T& b, const T& c) { return a * b + c; }

  /// c[i][lane] (+)= sum over k of A(i, k) b[k][lane], i < m; A(i, k) = a[i * row + k * column].
  /// Adds to c if `accumulate`. m is a multiple of `strip`.
  static void panel_product(int64_t m, int64_t depth, const T* a, int64_t row, int64_t column,
                            const T* b, T* c, bool accumulate) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t lane = 0; lane < lanes; ++lane) {
        T sum(0);
        for (int64_t k = 0; k < depth; ++k) {
          sum += a[i * row + k * column] * b[k * lanes + lane];
        }
        T& out = c[i * lanes + lane];
        out = accumulate ? T(out + sum) : sum;
      }
    }
  }

  /// c (m, n), row stride ldc, += sum over panels and lanes of a[i][lane] b[lane][j]. Operands are
  /// readable up to m and n padded to outer_rows and outer_columns; c is touched within (m, n)
  /// only.
  static void outer_product(int64_t m, int64_t n, std::span<const OuterOperand<T>> panels,
                            int64_t ldb, T* c, int64_t ldc) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        T sum(0);
        for (const OuterOperand<T>& panel : panels) {
          if (panel.begin <= i && i < panel.end) {
            for (int64_t lane = 0; lane < lanes; ++lane) {
              sum += panel.a[i * lanes + lane] * panel.b[lane * ldb + j];
            }
          }
        }
        c[i * ldc + j] += sum;
      }
    }
  }

  /// One step of the online softmax. s[key][lane], key < n, holds products q.k and becomes the
  /// weights exp(scale * s - shift) under the new running maximum, 0 for keys outside the lane's
  /// `bounds` (which are looked at only if `partial`). Updates row_max and sum, and sets `factor`
  /// to what earlier accumulations are to be multiplied by. Returns whether any factor is not 1.
  static bool online_softmax(int64_t n, const T& scale, bool partial, const Bounds& bounds, T* s,
                             Lanes& row_max, Lanes& sum, Lanes& factor) {
    using L = LogDomain<T>;
    bool any = false;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const Interval keys = partial ? bounds[lane] : Interval{0, n};
      T new_max = row_max[lane];
      for (int64_t key = keys.begin; key < keys.end; ++key) {
        T& x = s[key * lanes + lane];
        x = scale * x;
        new_max = L::larger(new_max, x);
      }
      factor[lane] = L::rescale(row_max[lane], new_max);
      row_max[lane] = new_max;
      const T shift = L::shift(new_max);
      T added(0);
      for (int64_t key = 0; key < n; ++key) {
        T& x = s[key * lanes + lane];
        x = keys.contains(key) ? L::weight(x, shift) : T(0);
        added += x;
      }
      sum[lane] = sum[lane] * factor[lane] + added;
      any = any || !(factor[lane] == T(1));
    }
    return any;
  }

  /// s[key][lane] holds q.k and becomes P = exp(scale * s - z); dp holds dO.v and becomes
  /// dS = scale * P (dp - delta). Both are 0 outside `bounds`, as above.
  static void score_gradient(int64_t n, const T& scale, bool partial, const Bounds& bounds,
                             const Lanes& z, const Lanes& delta, T* s, T* dp) {
    using L = LogDomain<T>;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const Interval keys = partial ? bounds[lane] : Interval{0, n};
      for (int64_t key = 0; key < n; ++key) {
        T& p = s[key * lanes + lane];
        T& ds = dp[key * lanes + lane];
        if (keys.contains(key)) {
          p = L::probability(scale * p, z[lane]);
          ds = scale * (p * (ds - delta[lane]));
        } else {
          p = ds = T(0);
        }
      }
    }
  }

  /// c[i][lane] *= factor[lane], i < m
  static void scale_panel(int64_t m, const Lanes& factor, T* c) {
    for (int64_t i = 0; i < m * lanes; ++i) {
      c[i] *= factor[i % lanes];
    }
  }

  static bool all_finite(int64_t n, const T* x) {
    for (int64_t i = 0; i < n; ++i) {
      if (!is_finite(x[i])) {
        return false;
      }
    }
    return true;
  }
};

}  // namespace bdlm

#if defined(__AVX2__) && defined(__FMA__)
#include "reference/math/tile_avx2.h"
#endif
