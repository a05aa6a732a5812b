#pragma once
// What a merge of two partial states should give, and how far from it a backend may be.

#include <cmath>
#include <vector>

#include "conformance/judge/contract.h"
#include "conformance/judge/error_model.h"
#include "conformance/judge/limits.h"
#include "reference/base/special_values.h"

namespace bdlm {

/// One row of a state with what it may be off by. A bound of 0 asks for these very bits.
struct BoundedState {
  std::vector<double> o, o_bound;  // (D)
  double z = 0;
  double z_bound = 0;
};

/// The merge (bdlm_merge_args) of `a`, which may be off, and `b`, which is not. With the sides
/// ordered so that z1 >= z2, x = z1 - z2, w = exp(-x), l = 1 + w and u the accumulation's:
///
///   H_o = u [4 + (w/l) (x + 4) [where both differ]] (|o1| + w |o2|) / l + u_part (|o| + that)
///         + |o1 - o2| w / l^2 E_z + E_o of `a` times its weight
///   H_z = u (|z| + 4 w/l + (w/l) (x + 4)) + u_lse |z| + E_z times the weight of `a`
///
/// The first line is exp and the arithmetic of one merge, the second what `a` brings along. Weights
/// below the smallest normal number may vanish.
inline BoundedState merge_bound(const Contract& contract, const BoundedState& a,
                                const BoundedState& b) {
  const size_t d = a.o.size();
  BoundedState out;
  if (std::isnan(a.z) || std::isnan(b.z) || a.z == infinity || b.z == infinity) {
    return {std::vector<double>(d, nan_value), std::vector<double>(d, 0), nan_value, 0};
  }
  if (a.z == -infinity && b.z == -infinity) {
    return {std::vector<double>(d, 0), std::vector<double>(d, 0), -infinity, 0};
  }
  if (a.z == -infinity || b.z == -infinity) {
    return b.z == -infinity ? a : b;
  }
  const ErrorModel model(contract, 1);
  const double u = model.u();
  const double larger = std::max(a.z, b.z);
  const double x = std::abs(a.z - b.z);
  const double w = std::exp(-x);
  const double l = 1 + w;
  const double share_a = (a.z >= b.z ? 1 : w) / l;
  const double share_b = (a.z >= b.z ? w : 1) / l;
  // w is off by this times itself, or by the smallest normal number.
  const double of_w = u * (x + limits::exp_roundings);
  const double lost = ErrorModel::tiny(contract.accumulate);
  out.z = larger + std::log1p(w);
  out.z_bound = u * (std::abs(out.z) + limits::exp_roundings * w / l) + w / l * of_w + lost +
                unit_roundoff(contract.lse) * std::abs(out.z) + share_a * a.z_bound;
  for (size_t c = 0; c < d; ++c) {
    const double value = share_a * a.o[c] + share_b * b.o[c];
    const double terms = share_a * std::abs(a.o[c]) + share_b * std::abs(b.o[c]);
    // O moves along o1 - o2 with w.
    const double apart = std::abs(a.o[c]) + std::abs(b.o[c]);
    double bound =
        u * limits::merge_roundings * terms +
        apart * ((of_w + (a.z_bound > 0 ? std::expm1(a.z_bound) : 0)) * w / (l * l) + lost) +
        share_a * (1 + limits::merge_roundings * u) * a.o_bound[c];
    bound += model.site(contract.partial_o) * (std::abs(value) + bound) +
             ErrorModel::tiny(contract.partial_o);
    out.o.push_back(value);
    out.o_bound.push_back(bound);
  }
  return out;
}

}  // namespace bdlm
