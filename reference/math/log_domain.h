#pragma once
// Softmax sums in the log domain, as a trait of the scalar.
//
// Attention needs few operations on scores and log-sum-exps: those below. With real scalars they
// are exp, log and log1p. A scalar without these functions specialises the trait and carries the
// sum of weights itself instead of its logarithm (exact.h), so that one source of attention and of
// the merge serves both.

#include <cmath>
#include <limits>

namespace bdlm {

/// The same value as a constant; scalars that carry derivatives overload it.
template <class T>
T constant_part(const T& x) {
  return x;
}

/// Quiet and constant: false for scalars that have no such values.
template <class T>
bool is_finite(const T& x) {
  using std::isfinite;
  return isfinite(x);
}

/// For a score s, its row's maximum m and a row log-sum-exp z, all of type T.
template <class T>
struct LogDomain {
  /// The log-sum-exp of nothing: -inf. Also the running maximum before the first score.
  static T empty() { return T(-std::numeric_limits<T>::infinity()); }
  static T not_a_number() { return T(std::numeric_limits<T>::quiet_NaN()); }
  static bool is_empty(const T& z) { return z == empty(); }
  static bool is_nan(const T& z) {
    using std::isnan;
    return isnan(z);
  }
  static bool is_positive_infinity(const T& z) {
    return z == T(std::numeric_limits<T>::infinity());
  }
  /// The larger of a running maximum and a score. NaN scores drop out here and come back as
  /// weights.
  static T larger(const T& row_max, const T& score) { return row_max < score ? score : row_max; }

  /// What is subtracted from the scores of a row: its maximum; 0 if all of them are -inf.
  static T shift(const T& row_max) { return is_empty(row_max) ? T(0) : constant_part(row_max); }
  /// exp(score - shift)
  static T weight(const T& score, const T& shift) {
    using std::exp;
    return exp(score - shift);
  }
  /// The factor on what was accumulated under an old row maximum, once there is a new one.
  static T rescale(const T& old_max, const T& new_max) {
    using std::exp;
    return is_empty(old_max) || old_max == new_max
               ? T(1)
               : exp(constant_part(old_max) - constant_part(new_max));
  }
  /// shift + log(sum), the sum being one of weights under `shift`
  static T lse(const T& shift, const T& sum) {
    using std::log;
    return sum == T(0) ? empty() : T(shift + log(sum));
  }
  /// exp(score - z)
  static T probability(const T& score, const T& z) {
    using std::exp;
    return exp(score - z);
  }
  /// exp(z_small - z_large)
  static T ratio(const T& z_small, const T& z_large) {
    using std::exp;
    return exp(z_small - z_large);
  }
  /// z_large + log(1 + w): the log-sum-exp once a share w of z_large's sum has joined it.
  static T grow(const T& z_large, const T& w) {
    using std::log1p;
    return z_large + log1p(w);
  }
  static bool less(const T& z1, const T& z2) { return z1 < z2; }
};

}  // namespace bdlm
