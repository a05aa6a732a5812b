#pragma once
// Every tolerance of the judge and the suites, with its source. No tolerance stands anywhere else.

#include <cstdint>

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

// T4: the rounding model of a low-precision backend (bounds.h) and its verdict (judge_tensor.h).

/// Mean square of the relative error of one rounding to nearest, in units of u^2. In a binade
/// [1, 2) the error is uniform in [-u, u]; for a value whose logarithm is uniform there the mean of
/// (error / x)^2 is u^2/3 * (3/8) / ln 2 = 0.1803 u^2.
inline constexpr double rounding_variance = 0.18;

/// A sum of n terms in sequence carries at most n roundings; they are not all of one sign, and
/// chain_deviations * sqrt(n) is beyond what independent ones reach: the deviation of the sum is at
/// most sqrt(rounding_variance n) u = 0.42 sqrt(n) u, so this is 19 of them.
inline constexpr double chain_deviations = 8;
/// The same for the sum of weights inside an LSE, whose terms are of one sign and whose partial
/// sums grow evenly: deviation sqrt(rounding_variance n / 3) u, so this is 16 of them.
inline constexpr double lse_chain_deviations = 4;

/// Roundings of a score besides its D products and sums, each relative to the sum of absolute
/// terms: scale and its product, log2(e) and its product, the difference with the maximum or z.
inline constexpr double score_roundings = 5;
/// Relative error, in u, of exp, of the division by the sum and of its logarithm; and again for
/// every merge of two partial results. Includes device functions of 2 ulp (ex2.approx).
inline constexpr double exp_roundings = 4;

/// Largest number whose loss to zero a bound forgives where bf16 or fp32 is rounded to: devices may
/// flush subnormals.
inline constexpr double flush_to_zero = 0x1p-126;

/// Single errors, in predicted deviations. Correct emulated pipelines stay below 5.0 in every case
/// of judge_attention_test.cc.
inline constexpr double outlier_marginal = 6.5;
inline constexpr double outlier_fail = 8;

/// Root mean square of errors in predicted deviations, on Gaussian data: at most noise_pass +
/// noise_samples / sqrt(N), and up to noise_fail MARGINAL; judged from noise_elements on. Correct
/// emulated pipelines: 0.77 to 1.04.
inline constexpr double noise_pass = 1.08;
inline constexpr double noise_samples = 4;
inline constexpr double noise_fail = 1.5;
inline constexpr int64_t noise_elements = 256;

/// |gain - 1| <= max(u / gain_unit_share, gain_deviations predicted deviations, gain_row_deviations
/// of those for errors that the channels of a row share, gain_exp_roundings u of the accumulation).
/// The third is what few rows of many channels need: bf16 on one head of 512 channels and 21 tokens
/// has a gain of 1 - 5e-4: the roundings of a few dozen dS, each in all its channels. The last is
/// the one-sided error of an exp that z does not divide out in the backward.
inline constexpr double gain_unit_share = 8;
inline constexpr double gain_deviations = 8;
inline constexpr double gain_row_deviations = 3;
inline constexpr double gain_exp_roundings = 8;
/// The share of u on data other than Gaussian, where many probabilities may be equal and so rounded
/// alike: up to all of u. Correct emulated pipelines on keys that are all equal: 0.4 u.
inline constexpr double gain_unit_share_structured = 1;
/// A gain is judged where the limit is below this; else the tensor is mostly rounding errors, as
/// the dQ of equal keys, and the other limits judge it.
inline constexpr double gain_measurable = 0.1;

/// A wrong tensor of at least so many elements that is right but for a factor is called so.
inline constexpr int64_t gain_elements = 32;

/// A case has to notice an answer times `vacuous_factor`, and one dropped pair of a row that sees
/// up to `vacuous_keys` keys.
inline constexpr double vacuous_factor = 1.01;
inline constexpr int64_t vacuous_keys = 4096;
/// Room for rounding where the pair to drop is one of at least average probability.
inline constexpr double vacuous_probability = 1e-12;

// Golden vectors.

/// H and sigma of a stored vector against the same made anew: both are floats of sums of positive
/// terms in double, whose exp and log differ between math libraries by few units of 2^-53; what is
/// seen is the rounding to float, 2^-24.
inline constexpr double golden_bound = 1e-5;

// Two runs of the same contract against each other (compare_runs.h).

/// Relative L2 error of a tensor: compare_roundings * u of the coarsest site, times sqrt(layers),
/// beside chain_deviations * sqrt(terms) * u of the accumulation. One rounding of independent
/// relative errors has 0.42 u; an output of attention has up to six such sites behind it, in either
/// run: 0.42 u sqrt(12) = 1.5 u, and as much again for terms that cancel. Measured on emulated
/// pipelines, one rank against 2 to 8: up to 0.4 of the limit.
inline constexpr double compare_roundings = 4;
/// Up to so many times the limit is MARGINAL.
inline constexpr double compare_marginal = 4;
/// Rows of another order are looked for in tensors of up to so many rows.
inline constexpr int64_t compare_rows = 65536;

// T1: the probe (probe.h).

/// A multiplicity is the nearest integer to what is measured, and the rest is below this. In bf16 a
/// payload is seen through the rounding of O: |O| <= max|f|, and a pair is read where its payload
/// is at least probe_payload max|f| from the row's mean, so the rest is at most 2^-8 /
/// probe_payload = 0.125 and what dS and dQ round.
inline constexpr double probe_residual = 0.25;
inline constexpr double probe_payload = 1.0 / 32;

// LSE merges (merge_suite.cc) and cross-entropy (cross_entropy_bound.h).

/// Roundings of one merged output besides exp: 1 + w, its quotient, a product, the sum.
inline constexpr double merge_roundings = 4;
/// Relative error of tanh, in u, with the division before and the product behind it: device
/// functions have up to 2 ulp.
inline constexpr double tanh_roundings = 8;
/// Roundings of a logit's gradient besides those of p: p - 1, the slope, weight times upstream, two
/// products.
inline constexpr double logit_gradient_roundings = 6;

// Whole steps (step_backend_suite.cc).

// A step is a smooth function of its inputs, so rounding errors are proportional to u: what T3
// allows in double, step_relative of the tensor's largest value, is allowed in any format of the
// accumulation, times the ratio of its u to 2^-53: 1801 u. Or, where that is larger, step_reordered
// times what roundings to that format at attention's sites do to the step in double. The float
// backend under every scheme comes to 0.07 of it.

/// Under a contract that rounds more: times the error of the reference that rounds at its sites.
inline constexpr double step_emulated = 1.25;

}  // namespace bdlm::limits
