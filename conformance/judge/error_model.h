#pragma once
// The rounding errors of attention, term by term: what bounds.cc and key_bounds.cc share.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "conformance/judge/attention_arrays.h"
#include "conformance/judge/contract.h"
#include "conformance/judge/limits.h"

namespace bdlm {

/// Of one query row and head with one key. Sums over the D channels.
struct PairTerms {
  double score = 0;          ///< s = scale sum q k
  double score_terms = 0;    ///< S = scale sum |q k|
  double score_squares = 0;  ///< scale^2 sum (q k)^2
  double dp = 0;             ///< dp = sum dO v
  double dp_terms = 0;       ///< A = sum |dO v|
  double dp_squares = 0;     ///< sum (dO v)^2
};

/// All pointers are to D channels; d_o may be null.
inline PairTerms pair_terms(int64_t d, double scale, const double* q, const double* k,
                            const double* v, const double* d_o) {
  PairTerms t;
  for (int64_t c = 0; c < d; ++c) {
    const double x = scale * q[c] * k[c];
    t.score += x;
    t.score_terms += std::abs(x);
    t.score_squares += x * x;
  }
  if (d_o != nullptr) {
    for (int64_t c = 0; c < d; ++c) {
      const double x = d_o[c] * v[c];
      t.dp += x;
      t.dp_terms += std::abs(x);
      t.dp_squares += x * x;
    }
  }
  return t;
}

/// What the pairs of one query row and head have in common.
struct RowTerms {
  int64_t keys = 0;    ///< n
  double merges = 0;   ///< attention calls after the first
  double z = 0;        ///< log-sum-exp
  double z_error = 0;  ///< bound of z's error relative to the scores: sum p e + c(n) u
  double z_variance = 0;
  double delta = 0;           ///< sum dO O
  double delta_error = 0;     ///< E, its bound
  double delta_variance = 0;  ///< VarD
};

/// Bounds and predicted variances of the pieces, for one contract. u is a unit roundoff, kappa =
/// limits::rounding_variance.
class ErrorModel {
 public:
  ErrorModel(const Contract& contract, int64_t head_dim)
      : contract_(contract),
        d_(static_cast<double>(head_dim)),
        // The double in which the judge itself computes counts, too: it matters under f64.
        u_(unit_roundoff(contract.accumulate) + limits::unit_f64) {}

  /// u of what is not named in the contract.
  double u() const { return u_; }
  double d() const { return d_; }
  /// u of a site; 0 where it does not round.
  double site(Dtype dtype) const { return site_unit(contract_, dtype); }
  /// kappa u^2 of a unit roundoff.
  static double variance(double unit) { return limits::rounding_variance * unit * unit; }
  /// What becomes of a number that is too small for the format: half the smallest subnormal of
  /// fp16, else everything below the normal numbers.
  static double tiny(Dtype dtype) {
    switch (dtype) {
      case Dtype::fp16:
        return 0x1p-25;
      case Dtype::f64:
        return 0x1p-1022;
      case Dtype::bf16:
      case Dtype::fp32:
        break;
    }
    return limits::flush_to_zero;
  }
  static double tiny_variance(Dtype dtype) { return tiny(dtype) * tiny(dtype); }

  /// Roundings in sequence of a sum of n terms.
  double steps(int64_t n) const {
    const int64_t chain = contract_.chain;
    return static_cast<double>(chain > 0 && chain < n ? chain + (n + chain - 1) / chain : n);
  }
  /// c(n) = min(n, 8 sqrt(n))
  double chain(int64_t n) const {
    return std::min(steps(n), limits::chain_deviations * std::sqrt(steps(n)));
  }
  /// Variance of a sum of n terms over kappa u^2 (sum t^2 + (sum t)^2): the partial sums of terms
  /// of random sign have mean square n/2 of the terms' squares, those of one sign less than half of
  /// the sum's square each.
  double chain_variance(int64_t n) const { return variance(u_) * steps(n) / 2; }

  /// e = u [(D + 5) S + (1 + merges) |z| + 4 + 4 merges]: of a score, with exp and z.
  double score_error(const PairTerms& t, const RowTerms& row) const {
    return u_ * ((d_ + limits::score_roundings) * t.score_terms +
                 (1 + row.merges) * (std::abs(row.z) + limits::exp_roundings));
  }
  /// kappa u^2 [D/2 (sum t^2 + s^2) + (s - z)^2 + 4^2]: the sum, the exponent, exp.
  double score_variance(const PairTerms& t, const RowTerms& row) const {
    const double exponent = t.score - row.z;
    return variance(u_) * (d_ / 2 * (t.score_squares + t.score * t.score) + exponent * exponent +
                           limits::exp_roundings * limits::exp_roundings);
  }
  /// Relative error of p = exp(s - z): exp(e + z's error) - 1.
  double probability_error(const PairTerms& t, const RowTerms& row) const {
    return std::expm1(score_error(t, row) + row.z_error);
  }

  /// Bound of dS's error, scale included: p with its error times (dp - delta) with theirs, and the
  /// rounding of the result.
  double ds_error(double scale, double p, double ds, const PairTerms& t,
                  const RowTerms& row) const {
    const double relative = probability_error(t, row);
    // |ds| rel + scale p (1 + rel) (E + D u A)
    const double error = std::abs(ds) * relative + std::abs(scale) * p * (1 + relative) *
                                                       (row.delta_error + d_ * u_ * t.dp_terms);
    return error + site(contract_.ds) * (std::abs(ds) + error) +
           std::abs(scale) * tiny(contract_.ds);
  }
  /// Variance of dS's error but for what all pairs of the row share (z and delta): its own
  /// rounding, its score's, dp's.
  double ds_variance(double scale, double p, double ds, const PairTerms& t,
                     const RowTerms& row) const {
    return ds * ds * (variance(site(contract_.ds)) + score_variance(t, row)) +
           scale * p * scale * p * variance(u_) * d_ / 2 * (t.dp_squares + t.dp * t.dp) +
           scale * scale * tiny_variance(contract_.ds);
  }

 private:
  const Contract& contract_;
  double d_;
  double u_;
};

}  // namespace bdlm
