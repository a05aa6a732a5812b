#pragma once
// The merge of two states of a row, in float and in double. Products and sums are never contracted,
// and so the result does not depend on which state comes first.

#include <cmath>

namespace bdlm::cuda {

__device__ inline float rounded_product(float x, float y) {
  return __fmul_rn(x, y);
}
__device__ inline double rounded_product(double x, double y) {
  return __dmul_rn(x, y);
}
__device__ inline float rounded_sum(float x, float y) {
  return __fadd_rn(x, y);
}
__device__ inline double rounded_sum(double x, double y) {
  return __dadd_rn(x, y);
}
__device__ inline float rounded_quotient(float x, float y) {
  return __fdiv_rn(x, y);
}
__device__ inline double rounded_quotient(double x, double y) {
  return __ddiv_rn(x, y);
}

/// Normalised outputs o_a, o_b and log-sum-exps z_a, z_b of disjoint keys. With z_a >= z_b after
/// ordering:
///
///   w = exp(z_b - z_a),  l = 1 + w,  o = o_a / l + (w / l) o_b,  z = z_a + log1p(w)
///
/// (0, -inf) is the identity; NaN and +inf give NaN.
template <class T>
class MergedRow {
 public:
  __device__ MergedRow(T z_a, T z_b) {
    const T infinity = static_cast<T>(INFINITY);
    const T nan = static_cast<T>(NAN);
    if (isnan(z_a) || isnan(z_b) || z_a == infinity || z_b == infinity) {
      take_ = Take::nan;
      z_ = nan;
    } else if (z_b == -infinity) {
      take_ = z_a == -infinity ? Take::nothing : Take::a;
      z_ = z_a;
    } else if (z_a == -infinity) {
      take_ = Take::b;
      z_ = z_b;
    } else {
      take_ = Take::both;
      const bool a_larger = !(z_a < z_b);
      const T larger = a_larger ? z_a : z_b;
      const T smaller = a_larger ? z_b : z_a;
      const T w = exp(smaller - larger);
      const T l = rounded_sum(T(1), w);
      const T of_larger = rounded_quotient(T(1), l);
      const T of_smaller = rounded_quotient(w, l);
      a_ = a_larger ? of_larger : of_smaller;
      b_ = a_larger ? of_smaller : of_larger;
      z_ = rounded_sum(larger, log1p(w));
    }
  }

  __device__ T z() const { return z_; }
  __device__ T o(T o_a, T o_b) const {
    switch (take_) {
      case Take::nothing:
        return T(0);
      case Take::a:
        return o_a;
      case Take::b:
        return o_b;
      case Take::nan:
        return static_cast<T>(NAN);
      case Take::both:
        break;
    }
    return rounded_sum(rounded_product(a_, o_a), rounded_product(b_, o_b));
  }

 private:
  enum class Take : int { nothing, a, b, both, nan };
  Take take_;
  T a_ = 0, b_ = 0, z_;
};

}  // namespace bdlm::cuda
