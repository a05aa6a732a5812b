#pragma once
// Quadruple precision, 113 bits: the wider type that double results are checked against. Programs
// that use it link quadmath.

#include <boost/multiprecision/eigen.hpp>
#include <boost/multiprecision/float128.hpp>

namespace bdlm {

/// `__float128` with operators, numeric_limits, the functions of <cmath> by argument-dependent
/// lookup and Eigen traits. Expression templates are off: every operation yields a Quad.
using Quad = boost::multiprecision::number<boost::multiprecision::float128_backend,
                                           boost::multiprecision::et_off>;

}  // namespace bdlm

// Boost 1.74 declares these two for its float128 but cannot instantiate them. Plain functions are
// preferred to its templates, and argument-dependent lookup looks for them here.
namespace boost::multiprecision {

inline bdlm::Quad log1p(const bdlm::Quad& x) {
  return bdlm::Quad(log1pq(x.backend().value()));
}
inline bdlm::Quad expm1(const bdlm::Quad& x) {
  return bdlm::Quad(expm1q(x.backend().value()));
}

}  // namespace boost::multiprecision
