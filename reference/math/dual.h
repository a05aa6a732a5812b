#pragma once
// Dual numbers: forward-mode derivatives along one direction, carried through unchanged source.

#include <Eigen/Core>
#include <cmath>
#include <concepts>
#include <limits>
#include <ostream>

namespace bdlm {

/// `value + derivative * e` with e^2 = 0. Arithmetic and the functions below carry the derivative
/// of whatever the value is a function of; comparisons look at the value alone. T is any real
/// scalar, itself a Dual for second derivatives.
template <class T>
struct Dual {
  T value{};
  T derivative{};

  Dual() = default;
  Dual(const T& v) : value(v) {}  // NOLINT: constants enter expressions as they are
  Dual(const T& v, const T& d) : value(v), derivative(d) {}
  template <class U>
  requires(std::is_arithmetic_v<U> && !std::same_as<U, T>) Dual(U v)
      : value(static_cast<T>(v)) {}  // NOLINT: as above

  explicit operator double() const { return static_cast<double>(value); }

  friend Dual operator+(const Dual& a) { return a; }
  friend Dual operator-(const Dual& a) { return {-a.value, -a.derivative}; }
  friend Dual operator+(const Dual& a, const Dual& b) {
    return {a.value + b.value, a.derivative + b.derivative};
  }
  friend Dual operator-(const Dual& a, const Dual& b) {
    return {a.value - b.value, a.derivative - b.derivative};
  }
  friend Dual operator*(const Dual& a, const Dual& b) {
    return {a.value * b.value, a.derivative * b.value + a.value * b.derivative};
  }
  friend Dual operator/(const Dual& a, const Dual& b) {
    const T quotient = a.value / b.value;
    return {quotient, (a.derivative - quotient * b.derivative) / b.value};
  }
  Dual& operator+=(const Dual& o) { return *this = *this + o; }
  Dual& operator-=(const Dual& o) { return *this = *this - o; }
  Dual& operator*=(const Dual& o) { return *this = *this * o; }
  Dual& operator/=(const Dual& o) { return *this = *this / o; }

  friend bool operator==(const Dual& a, const Dual& b) { return a.value == b.value; }
  friend bool operator!=(const Dual& a, const Dual& b) { return a.value != b.value; }
  friend bool operator<(const Dual& a, const Dual& b) { return a.value < b.value; }
  friend bool operator>(const Dual& a, const Dual& b) { return a.value > b.value; }
  friend bool operator<=(const Dual& a, const Dual& b) { return a.value <= b.value; }
  friend bool operator>=(const Dual& a, const Dual& b) { return a.value >= b.value; }
  friend std::ostream& operator<<(std::ostream& out, const Dual& a) {
    return out << a.value << '+' << a.derivative << 'e';
  }
};

template <class T>
Dual<T> exp(const Dual<T>& x) {
  using std::exp;
  const T y = exp(x.value);
  return {y, y * x.derivative};
}
template <class T>
Dual<T> expm1(const Dual<T>& x) {
  using std::exp;
  using std::expm1;
  return {expm1(x.value), exp(x.value) * x.derivative};
}
template <class T>
Dual<T> log(const Dual<T>& x) {
  using std::log;
  return {log(x.value), x.derivative / x.value};
}
template <class T>
Dual<T> log1p(const Dual<T>& x) {
  using std::log1p;
  return {log1p(x.value), x.derivative / (T(1) + x.value)};
}
template <class T>
Dual<T> sqrt(const Dual<T>& x) {
  using std::sqrt;
  const T y = sqrt(x.value);
  return {y, x.derivative / (T(2) * y)};
}
template <class T>
Dual<T> tanh(const Dual<T>& x) {
  using std::tanh;
  const T y = tanh(x.value);
  return {y, (T(1) - y * y) * x.derivative};
}
template <class T>
Dual<T> sin(const Dual<T>& x) {
  using std::cos;
  using std::sin;
  return {sin(x.value), cos(x.value) * x.derivative};
}
template <class T>
Dual<T> cos(const Dual<T>& x) {
  using std::cos;
  using std::sin;
  return {cos(x.value), -(sin(x.value) * x.derivative)};
}
/// The derivative at 0 is that of the right side.
template <class T>
Dual<T> abs(const Dual<T>& x) {
  return x.value < T(0) ? -x : x;
}
/// `base` to a constant or varying exponent; base > 0.
template <class T>
Dual<T> pow(const Dual<T>& base, const Dual<T>& exponent) {
  return exp(exponent * log(base));
}
template <class T>
bool isnan(const Dual<T>& x) {
  using std::isnan;
  return isnan(x.value);
}
template <class T>
bool isinf(const Dual<T>& x) {
  using std::isinf;
  return isinf(x.value);
}
template <class T>
bool isfinite(const Dual<T>& x) {
  using std::isfinite;
  return isfinite(x.value);
}

/// The same value as a constant. Found by argument-dependent lookup where a quantity cancels out of
/// the mathematics (the shift of a softmax), so that its derivative need not be carried.
template <class T>
Dual<T> constant_part(const Dual<T>& x) {
  return {x.value};
}

}  // namespace bdlm

template <class T>
struct std::numeric_limits<bdlm::Dual<T>> : std::numeric_limits<T> {};

template <class T>
struct Eigen::NumTraits<bdlm::Dual<T>> : Eigen::GenericNumTraits<bdlm::Dual<T>> {
  using Real = bdlm::Dual<T>;
  using NonInteger = bdlm::Dual<T>;
  using Nested = bdlm::Dual<T>;
  using Literal = bdlm::Dual<T>;
  enum {
    IsComplex = 0,
    IsInteger = 0,
    IsSigned = 1,
    RequireInitialization = 1,
    ReadCost = 2 * NumTraits<T>::ReadCost,
    AddCost = 2 * NumTraits<T>::AddCost,
    MulCost = 3 * NumTraits<T>::MulCost + NumTraits<T>::AddCost
  };
  static Real epsilon() { return NumTraits<T>::epsilon(); }
  static Real dummy_precision() { return NumTraits<T>::dummy_precision(); }
  static Real highest() { return NumTraits<T>::highest(); }
  static Real lowest() { return NumTraits<T>::lowest(); }
  static int digits10() { return NumTraits<T>::digits10(); }
};
