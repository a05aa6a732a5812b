#pragma once
// Every tolerance of the suite, with its source. No tolerance stands anywhere else.

namespace bdlm::limits {

/// Half the spacing of doubles below 1: the relative error of one rounding.
inline constexpr double unit_f64 = 0x1p-53;

/// T3, attention: |difference| <= u A (constant + per_score * S + chain), double_bound.h. A score
/// of absolute sum S carries an error of some u S into exp, twice (two evaluations), forward and
/// backward; the constant covers exp, the division, the merge and delta.
inline constexpr double double_constant = 16;
inline constexpr double double_per_score = 4;

/// T3, parameter gradients and loss: max |difference| <= step_relative * max |x| of the tensor, or
/// step_reordered times the difference of two monolithic runs with keys in another order, where
/// that is larger. Measured between schemes on small models: up to 2.4e-14.
inline constexpr double step_relative = 2e-13;
inline constexpr double step_reordered = 16;

/// Gradients against dual numbers: random directions within dual_direction * sum |g v|, coordinates
/// within dual_coordinate * max |g| of the tensor.
inline constexpr double dual_direction = 1e-14;
inline constexpr double dual_coordinate = 1e-14;

}  // namespace bdlm::limits
