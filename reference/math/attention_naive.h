#pragma once
// Textbook attention, one dense softmax a row: the independent check of attention.h. For tests.

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "reference/layout/interval.h"

namespace bdlm {

/// Everything about one small attention problem, by plain loops over the formulas. Besides each
/// result it sums the absolute values of its terms (`*_terms`), by which rounding is bounded.
/// q (R, Hq, D), k and v (N, Hkv, D). The backward is the full Jacobian of the softmax: it does not
/// use delta = sum_d dO O.
template <class T>
struct NaiveAttention {
  int64_t rows, keys, q_heads, kv_heads, head_dim;
  T scale;
  std::vector<Interval> seen;  // (R)
  std::vector<T> q, k, v, d_o;

  std::vector<T> o, lse, dq, dk, dv;
  std::vector<T> o_terms, dq_terms, dk_terms, dv_terms;
  T largest_score{0};  // the largest scale * sum |q| |k|

  void compute() {
    const int64_t d = head_dim;
    o.assign(q.size(), T(0));
    dq = o_terms = dq_terms = o;
    dk.assign(k.size(), T(0));
    dv = dk_terms = dv_terms = dk;
    lse.assign(rows * q_heads, -std::numeric_limits<T>::infinity());
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t h = 0; h < q_heads; ++h) {
        if (!seen[r].empty()) {
          row((r * q_heads + h) * d, h * kv_heads / q_heads, seen[r], lse[r * q_heads + h]);
        }
      }
    }
  }

 private:
  void row(int64_t at, int64_t kv_head, const Interval& range, T& z) {
    using std::abs;
    using std::exp;
    using std::log;
    const int64_t d = head_dim;
    const int64_t n = range.size();
    std::vector<T> p(n), dp(n, T(0)), dp_terms(n, T(0));
    const auto key_at = [&](int64_t j) { return ((range.begin + j) * kv_heads + kv_head) * d; };
    T maximum = -std::numeric_limits<T>::infinity();
    for (int64_t j = 0; j < n; ++j) {
      T s(0), terms(0);
      for (int64_t i = 0; i < d; ++i) {
        s += q[at + i] * k[key_at(j) + i];
        terms += abs(q[at + i] * k[key_at(j) + i]);
        dp[j] += d_o[at + i] * v[key_at(j) + i];
        dp_terms[j] += abs(d_o[at + i] * v[key_at(j) + i]);
      }
      p[j] = scale * s;
      maximum = maximum < p[j] ? p[j] : maximum;
      terms *= abs(scale);
      largest_score = largest_score < terms ? terms : largest_score;
    }
    T sum(0);
    for (T& x : p) {
      x = exp(x - maximum);
      sum += x;
    }
    z = maximum + log(sum);
    T mean(0), mean_terms(0);
    for (int64_t j = 0; j < n; ++j) {
      p[j] /= sum;
      mean += p[j] * dp[j];
      mean_terms += p[j] * dp_terms[j];
    }
    for (int64_t j = 0; j < n; ++j) {
      const T ds = scale * p[j] * (dp[j] - mean);
      const T ds_terms = abs(scale) * p[j] * (dp_terms[j] + mean_terms);
      for (int64_t i = 0; i < d; ++i) {
        const int64_t key = key_at(j) + i;
        o[at + i] += p[j] * v[key];
        o_terms[at + i] += p[j] * abs(v[key]);
        dv[key] += p[j] * d_o[at + i];
        dv_terms[key] += p[j] * abs(d_o[at + i]);
        dq[at + i] += ds * k[key];
        dq_terms[at + i] += ds_terms * abs(k[key]);
        dk[key] += ds * q[at + i];
        dk_terms[key] += ds_terms * abs(q[at + i]);
      }
    }
  }
};

}  // namespace bdlm
