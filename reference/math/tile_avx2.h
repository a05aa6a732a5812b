#pragma once
// Tile<double>: the loops of tile.h in 256-bit vectors. Included by tile.h where AVX2 and FMA
// exist.
//
// A panel is 12 rows, three vectors. panel_product keeps 4 x 12 sums in registers, outer_product
// 6 x 8: twelve vector sums, enough independent chains to cover the latency of the two FMA units.

#include <immintrin.h>

#include <vector>

#include "reference/math/tile.h"
#include "reference/math/vector_exp.h"

namespace bdlm {

template <>
struct Tile<double> {
  static constexpr int64_t lanes = 12;
  static constexpr int64_t strip = 4, outer_rows = 6, outer_columns = 8;

  using Bounds = std::array<Interval, lanes>;
  using Lanes = std::array<double, lanes>;

  static double multiply_add(double a, double b, double c) { return std::fma(a, b, c); }

  static void panel_product(int64_t m, int64_t depth, const double* a, int64_t row, int64_t column,
                            const double* b, double* c, bool accumulate) {
    for (int64_t i = 0; i < m; i += strip) {
      panel_strip(depth, a + i * row, row, column, b, c + i * lanes, accumulate);
    }
  }

  static void outer_product(int64_t m, int64_t n, std::span<const OuterOperand<double>> panels,
                            int64_t ldb, double* c, int64_t ldc) {
    std::vector<OuterOperand<double>> active(panels.size());
    for (int64_t i = 0; i < m; i += outer_rows) {
      size_t count = 0;
      for (const OuterOperand<double>& panel : panels) {
        if (panel.begin <= i && i < panel.end) {
          active[count++] = {panel.a + i * lanes, panel.b, 0, 0};
        }
      }
      if (count == 0) {
        continue;
      }
      for (int64_t j = 0; j < n; j += outer_columns) {
        outer_block({active.data(), count}, j, ldb, c + i * ldc + j, ldc,
                    std::min(outer_rows, m - i), std::min(outer_columns, n - j));
      }
    }
  }

  static bool online_softmax(int64_t n, double scale, bool partial, const Bounds& bounds, double* s,
                             Lanes& row_max, Lanes& sum, Lanes& factor) {
    using L = LogDomain<double>;
    const Mask mask(bounds);
    const __m256d scales = _mm256_set1_pd(scale);
    const __m256d nothing = _mm256_set1_pd(L::empty());
    Vectors maximum = load(row_max.data());
    for (int64_t key = 0; key < n; ++key) {
#pragma GCC unroll 3
      for (int v = 0; v < 3; ++v) {
        double* at = s + key * lanes + int64_t{4} * v;
        __m256d x = _mm256_mul_pd(scales, _mm256_load_pd(at));
        if (partial) {
          x = _mm256_blendv_pd(nothing, x, mask.at(key, v));
        }
        _mm256_store_pd(at, x);
        maximum[v] = _mm256_max_pd(x, maximum[v]);  // the second operand if x is NaN
      }
    }
    Lanes new_max, shift;
    store(maximum, new_max.data());
    bool any = false;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      factor[lane] = L::rescale(row_max[lane], new_max[lane]);
      shift[lane] = L::shift(new_max[lane]);
      any = any || factor[lane] != 1.0;
    }
    row_max = new_max;
    const Vectors shifts = load(shift.data());
    Vectors added = {{_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()}};
    for (int64_t key = 0; key < n; ++key) {
#pragma GCC unroll 3
      for (int v = 0; v < 3; ++v) {
        double* at = s + key * lanes + int64_t{4} * v;
        __m256d p = vector_exp(_mm256_sub_pd(_mm256_load_pd(at), shifts[v]));
        if (partial) {
          p = _mm256_and_pd(p, mask.at(key, v));
        }
        _mm256_store_pd(at, p);
        added[v] = _mm256_add_pd(added[v], p);
      }
    }
    Lanes more;
    store(added, more.data());
    for (int64_t lane = 0; lane < lanes; ++lane) {
      sum[lane] = sum[lane] * factor[lane] + more[lane];
    }
    return any;
  }

  static void score_gradient(int64_t n, double scale, bool partial, const Bounds& bounds,
                             const Lanes& z, const Lanes& delta, double* s, double* dp) {
    const Mask mask(bounds);
    const __m256d scales = _mm256_set1_pd(scale);
    const Vectors zs = load(z.data());
    const Vectors deltas = load(delta.data());
    for (int64_t key = 0; key < n; ++key) {
#pragma GCC unroll 3
      for (int v = 0; v < 3; ++v) {
        double* at_s = s + key * lanes + int64_t{4} * v;
        double* at_dp = dp + key * lanes + int64_t{4} * v;
        const __m256d x = _mm256_mul_pd(scales, _mm256_load_pd(at_s));
        __m256d p = vector_exp(_mm256_sub_pd(x, zs[v]));
        __m256d ds = _mm256_mul_pd(
            scales, _mm256_mul_pd(p, _mm256_sub_pd(_mm256_load_pd(at_dp), deltas[v])));
        if (partial) {
          const __m256d seen = mask.at(key, v);
          p = _mm256_and_pd(p, seen);
          ds = _mm256_and_pd(ds, seen);
        }
        _mm256_store_pd(at_s, p);
        _mm256_store_pd(at_dp, ds);
      }
    }
  }

  static void scale_panel(int64_t m, const Lanes& factor, double* c) {
    const Vectors f = load(factor.data());
    for (int64_t i = 0; i < m; ++i) {
#pragma GCC unroll 3
      for (int v = 0; v < 3; ++v) {
        double* at = c + i * lanes + int64_t{4} * v;
        _mm256_store_pd(at, _mm256_mul_pd(f[v], _mm256_load_pd(at)));
      }
    }
  }

  static bool all_finite(int64_t n, const double* x) {
    // x * 0 is 0 for finite x and NaN for the others.
    __m256d sum = _mm256_setzero_pd();
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
      sum = _mm256_add_pd(sum, _mm256_mul_pd(_mm256_loadu_pd(x + i), _mm256_setzero_pd()));
    }
    alignas(32) double parts[4];
    _mm256_store_pd(parts, sum);
    double rest = parts[0] + parts[1] + parts[2] + parts[3];
    for (; i < n; ++i) {
      rest += x[i] * 0.0;
    }
    return rest == 0.0;
  }

 private:
  struct Vectors {
    __m256d parts[3];
    __m256d& operator[](int v) { return parts[v]; }
    const __m256d& operator[](int v) const { return parts[v]; }
  };

  static Vectors load(const double* x) {
    return {{_mm256_loadu_pd(x), _mm256_loadu_pd(x + 4), _mm256_loadu_pd(x + 8)}};
  }
  static void store(const Vectors& v, double* x) {
    _mm256_storeu_pd(x, v[0]);
    _mm256_storeu_pd(x + 4, v[1]);
    _mm256_storeu_pd(x + 8, v[2]);
  }

  /// Which lanes see a key, as vector masks. Key indices within a tile are exact as doubles.
  struct Mask {
    explicit Mask(const Bounds& bounds) {
      Lanes low, high;
      for (int64_t lane = 0; lane < lanes; ++lane) {
        low[lane] = static_cast<double>(bounds[lane].begin);
        high[lane] = static_cast<double>(bounds[lane].end);
      }
      begin = load(low.data());
      end = load(high.data());
    }
    __m256d at(int64_t key, int v) const {
      const __m256d x = _mm256_set1_pd(static_cast<double>(key));
      return _mm256_and_pd(_mm256_cmp_pd(begin[v], x, _CMP_LE_OQ),
                           _mm256_cmp_pd(x, end[v], _CMP_LT_OQ));
    }
    Vectors begin, end;
  };

  /// Four rows of panel_product.
  static void panel_strip(int64_t depth, const double* a, int64_t row, int64_t column,
                          const double* b, double* c, bool accumulate) {
    __m256d sum[4][3];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 3
      for (int v = 0; v < 3; ++v) {
        sum[i][v] = _mm256_setzero_pd();
      }
    }
    for (int64_t k = 0; k < depth; ++k) {
      const __m256d b0 = _mm256_load_pd(b);
      const __m256d b1 = _mm256_load_pd(b + 4);
      const __m256d b2 = _mm256_load_pd(b + 8);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const __m256d x = _mm256_broadcast_sd(a + i * row);
        sum[i][0] = _mm256_fmadd_pd(x, b0, sum[i][0]);
        sum[i][1] = _mm256_fmadd_pd(x, b1, sum[i][1]);
        sum[i][2] = _mm256_fmadd_pd(x, b2, sum[i][2]);
      }
      a += column;
      b += lanes;
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 3
      for (int v = 0; v < 3; ++v) {
        double* at = c + i * lanes + int64_t{4} * v;
        _mm256_store_pd(at, accumulate ? _mm256_add_pd(_mm256_load_pd(at), sum[i][v]) : sum[i][v]);
      }
    }
  }

  /// Six rows and eight columns of outer_product, of which (rows, columns) are written.
  static void outer_block(std::span<const OuterOperand<double>> panels, int64_t j, int64_t ldb,
                          double* c, int64_t ldc, int64_t rows, int64_t columns) {
    __m256d sum[6][2];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      sum[i][0] = _mm256_setzero_pd();
      sum[i][1] = _mm256_setzero_pd();
    }
    for (const OuterOperand<double>& panel : panels) {
      const double* a = panel.a;
      const double* b = panel.b + j;
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const __m256d b0 = _mm256_load_pd(b);
        const __m256d b1 = _mm256_load_pd(b + 4);
#pragma GCC unroll 6
        for (int i = 0; i < 6; ++i) {
          const __m256d x = _mm256_broadcast_sd(a + i * lanes);
          sum[i][0] = _mm256_fmadd_pd(x, b0, sum[i][0]);
          sum[i][1] = _mm256_fmadd_pd(x, b1, sum[i][1]);
        }
        ++a;
        b += ldb;
      }
    }
    if (rows == outer_rows && columns == outer_columns) {
#pragma GCC unroll 6
      for (int i = 0; i < 6; ++i) {
        double* at = c + i * ldc;
        _mm256_storeu_pd(at, _mm256_add_pd(_mm256_loadu_pd(at), sum[i][0]));
        _mm256_storeu_pd(at + 4, _mm256_add_pd(_mm256_loadu_pd(at + 4), sum[i][1]));
      }
      return;
    }
    alignas(32) double block[6][8];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      _mm256_store_pd(block[i], sum[i][0]);
      _mm256_store_pd(block[i] + 4, sum[i][1]);
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t k = 0; k < columns; ++k) {
        c[i * ldc + k] += block[i][k];
      }
    }
  }
};

}  // namespace bdlm
