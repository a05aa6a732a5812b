#pragma once
// Exact rational arithmetic, so that two ways of computing one function can be compared by `==`.

#include <Eigen/Core>
#include <boost/multiprecision/cpp_int.hpp>
#include <concepts>
#include <limits>
#include <ostream>
#include <utility>

#include "reference/base/error.h"
#include "reference/math/log_domain.h"

namespace bdlm {

/// A rational number of any size. It wraps boost's type, whose expression templates Eigen cannot
/// take; every operation here yields an Exact. Division by 0 throws (std::overflow_error).
class Exact {
 public:
  using Rational = boost::multiprecision::cpp_rational;

  Exact() = default;
  template <std::integral I>
  Exact(I n) : v_(n) {}  // NOLINT: integer constants enter expressions as they are
  /// numerator / denominator
  Exact(int64_t numerator, int64_t denominator) : v_(numerator, denominator) {}
  explicit Exact(Rational v) : v_(std::move(v)) {}

  const Rational& rational() const { return v_; }
  /// The nearest double, or so.
  explicit operator double() const { return v_.convert_to<double>(); }

  friend Exact operator+(const Exact& a) { return a; }
  friend Exact operator-(const Exact& a) { return Exact(Rational(-a.v_)); }
  friend Exact operator+(const Exact& a, const Exact& b) { return Exact(Rational(a.v_ + b.v_)); }
  friend Exact operator-(const Exact& a, const Exact& b) { return Exact(Rational(a.v_ - b.v_)); }
  friend Exact operator*(const Exact& a, const Exact& b) { return Exact(Rational(a.v_ * b.v_)); }
  friend Exact operator/(const Exact& a, const Exact& b) { return Exact(Rational(a.v_ / b.v_)); }
  Exact& operator+=(const Exact& o) {
    v_ += o.v_;
    return *this;
  }
  Exact& operator-=(const Exact& o) {
    v_ -= o.v_;
    return *this;
  }
  Exact& operator*=(const Exact& o) {
    v_ *= o.v_;
    return *this;
  }
  Exact& operator/=(const Exact& o) {
    v_ /= o.v_;
    return *this;
  }
  friend bool operator==(const Exact& a, const Exact& b) { return a.v_ == b.v_; }
  friend bool operator!=(const Exact& a, const Exact& b) { return a.v_ != b.v_; }
  friend bool operator<(const Exact& a, const Exact& b) { return a.v_ < b.v_; }
  friend bool operator>(const Exact& a, const Exact& b) { return a.v_ > b.v_; }
  friend bool operator<=(const Exact& a, const Exact& b) { return a.v_ <= b.v_; }
  friend bool operator>=(const Exact& a, const Exact& b) { return a.v_ >= b.v_; }
  friend std::ostream& operator<<(std::ostream& out, const Exact& a) { return out << a.v_; }

 private:
  Rational v_;
};

inline Exact abs(const Exact& x) {
  return x < Exact(0) ? -x : x;
}
inline bool is_finite(const Exact&) {
  return true;
}

/// The integer from 1 to 7 that stands for exp(score): some fixed, irregular function of it. Equal
/// scores have equal weights, which is all that the identities between decompositions need; unequal
/// ones mostly differ, so that a score taken from the wrong pair shows.
inline int64_t exact_weight(const Exact& score) {
  using boost::multiprecision::cpp_int;
  const auto residue = [](const cpp_int& n) {
    const auto r = static_cast<int64_t>(n % 10007);
    return r < 0 ? r + 10007 : r;
  };
  const int64_t p = residue(boost::multiprecision::numerator(score.rational()));
  const int64_t q = residue(boost::multiprecision::denominator(score.rational()));
  return (p * 7919 + q * 104729 + p * q % 31) % 10007 % 7 + 1;
}

/// A log-sum-exp is carried as l, the sum of weights: 0 for no keys. There is no shift.
template <>
struct LogDomain<Exact> {
  static Exact empty() { return 0; }
  static Exact not_a_number() { throw LogicError("a rational cannot be NaN"); }
  static bool is_empty(const Exact& l) { return l == Exact(0); }
  static bool is_nan(const Exact&) { return false; }
  static bool is_positive_infinity(const Exact&) { return false; }
  static Exact larger(const Exact&, const Exact&) { return 0; }
  static Exact shift(const Exact&) { return 0; }
  static Exact weight(const Exact& score, const Exact&) { return exact_weight(score); }
  static Exact rescale(const Exact&, const Exact&) { return 1; }
  static Exact lse(const Exact&, const Exact& sum) { return sum; }
  static Exact probability(const Exact& score, const Exact& l) { return exact_weight(score) / l; }
  static Exact ratio(const Exact& l_small, const Exact& l_large) { return l_small / l_large; }
  static Exact grow(const Exact& l_large, const Exact& w) { return l_large * (Exact(1) + w); }
  static bool less(const Exact& l1, const Exact& l2) { return l1 < l2; }
};

}  // namespace bdlm

template <>
struct Eigen::NumTraits<bdlm::Exact> : Eigen::GenericNumTraits<bdlm::Exact> {
  using Real = bdlm::Exact;
  using NonInteger = bdlm::Exact;
  using Nested = bdlm::Exact;
  using Literal = bdlm::Exact;
  enum {
    IsComplex = 0,
    IsInteger = 0,
    IsSigned = 1,
    RequireInitialization = 1,
    ReadCost = 10,
    AddCost = 100,
    MulCost = 100
  };
  static Real epsilon() { return 0; }
  static Real dummy_precision() { return 0; }
  static int digits10() { return 0; }
};
