#pragma once
// The rounding errors of attention, pair by pair, on the device: the twin of
// conformance/judge/error_model.h, by which it is tested. u is the unit of sums, kappa the rounding
// variance.

#include <cmath>

#include "optimized/cuda/bounds_problem.h"

namespace bdlm::cuda {

/// What the pairs of one row and head have in common.
struct RowModel {
  double z = 0, delta = 0;
  double z_error = 0, z_variance = 0, delta_error = 0, delta_variance = 0;
};

/// Sums over channels of one pair: x y, |x y| and (x y)^2, for scores without the scale.
struct PairSums {
  double sum, size, squares;
};

class RoundingModel {
 public:
  __device__ RoundingModel(const bdlm_error_model& m, double scale, int head_dim)
      : m_(m), scale_(scale), d_(head_dim), u_(m.accumulate) {}

  __device__ double u() const { return u_; }
  __device__ double d() const { return d_; }
  __device__ double merges() const { return static_cast<double>(m_.merges); }
  __device__ double variance(double unit) const { return m_.rounding_variance * unit * unit; }
  __device__ double steps(double n) const {
    const double chain = static_cast<double>(m_.chain);
    return chain > 0 && chain < n ? chain + ceil(n / chain) : n;
  }
  __device__ double chain(double n) const {
    return fmin(steps(n), m_.chain_deviations * sqrt(steps(n)));
  }
  __device__ double lse_chain(double n) const {
    return fmin(steps(n), m_.lse_chain_deviations * sqrt(steps(n)));
  }
  __device__ double chain_variance(double n) const { return variance(u_) * steps(n) / 2; }

  __device__ double score_error(const PairSums& t, double z) const {
    return u_ * ((d_ + m_.score_roundings) * fabs(scale_) * t.size +
                 (1 + merges()) * (fabs(z) + m_.exp_roundings));
  }
  __device__ double score_variance(const PairSums& t, double z) const {
    const double s = scale_ * t.sum;
    return variance(u_) * (d_ / 2 * (scale_ * scale_ * t.squares + s * s) + (s - z) * (s - z) +
                           m_.exp_roundings * m_.exp_roundings);
  }
  __device__ double probability(const PairSums& t, double z) const {
    return exp(scale_ * t.sum - z);
  }
  /// Relative error of p.
  __device__ double probability_error(const PairSums& t, const RowModel& row) const {
    return expm1(score_error(t, row.z) + row.z_error);
  }
  __device__ double ds(double p, double dp, const RowModel& row) const {
    return scale_ * p * (dp - row.delta);
  }
  __device__ double ds_error(double p, double ds, double relative, const PairSums& dp,
                             const RowModel& row) const {
    const double error = fabs(ds) * relative +
                         fabs(scale_) * p * (1 + relative) * (row.delta_error + d_ * u_ * dp.size);
    return error + m_.ds * (fabs(ds) + error) + fabs(scale_) * m_.tiny_ds;
  }
  __device__ double ds_variance(double p, double ds, double score_variance,
                                const PairSums& dp) const {
    const double weight = scale_ * p;
    return ds * ds * (variance(m_.ds) + score_variance) +
           weight * weight * variance(u_) * d_ / 2 * (dp.squares + dp.sum * dp.sum) +
           scale_ * scale_ * m_.tiny_ds * m_.tiny_ds;
  }

 private:
  const bdlm_error_model& m_;
  double scale_, d_, u_;
};

}  // namespace bdlm::cuda
