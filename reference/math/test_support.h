#pragma once
// Random data and gradient checks for the tests of this room.

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "reference/base/philox.h"
#include "reference/math/dual.h"
#include "reference/math/quad.h"

namespace bdlm::test {

using Vector = std::vector<double>;

/// n values, approximately Gaussian, of tensor `tensor`.
inline Vector gaussian(int64_t n, uint32_t tensor, double size = 1.0, uint64_t seed = 20) {
  const Philox philox(seed, tensor);
  Vector x(n);
  for (int64_t i = 0; i < n; ++i) {
    x[i] = size * philox.gaussian(static_cast<uint64_t>(i));
  }
  return x;
}

template <class T>
std::vector<T> convert(const Vector& x) {
  return std::vector<T>(x.begin(), x.end());
}

template <class T>
std::vector<std::vector<T>> convert(const std::vector<Vector>& x) {
  std::vector<std::vector<T>> out;
  for (const Vector& tensor : x) {
    out.push_back(convert<T>(tensor));
  }
  return out;
}

/// sum c_i x_i, for a fixed cotangent c
template <class T>
T dot(const Vector& c, const std::vector<T>& x) {
  T sum(0);
  for (size_t i = 0; i < x.size(); ++i) {
    sum += T(c[i]) * x[i];
  }
  return sum;
}

inline constexpr double gradient_tolerance = 1e-14;

/// <g, v> = d/de loss(x + e v) at e = 0, for some random v: by dual numbers, within 1e-14 sum |g
/// v|, and by one central difference in quadruple precision, within the same. `loss` takes
/// std::vector<std::vector<T>> and returns T.
template <class Loss>
void check_directions(const std::vector<Vector>& x, const std::vector<Vector>& g,
                      const Loss& loss) {
  for (uint32_t trial = 0; trial < 4; ++trial) {
    auto moved = convert<Dual<double>>(x);
    auto ahead = convert<Quad>(x);
    auto behind = ahead;
    const Quad h("1e-9");
    double product = 0, terms = 0;
    for (size_t t = 0; t < x.size(); ++t) {
      const Vector v =
          gaussian(static_cast<int64_t>(x[t].size()), 100 + 10 * trial + static_cast<uint32_t>(t));
      for (size_t i = 0; i < v.size(); ++i) {
        moved[t][i].derivative = v[i];
        ahead[t][i] += h * Quad(v[i]);
        behind[t][i] -= h * Quad(v[i]);
        product += g[t][i] * v[i];
        terms += std::abs(g[t][i] * v[i]);
      }
    }
    BOOST_REQUIRE_GT(terms, 0);
    const double by_dual = loss(moved).derivative;
    BOOST_CHECK_LE(std::abs(product - by_dual), gradient_tolerance * terms);
    if (trial == 0) {
      const Quad difference = (loss(ahead) - loss(behind)) / (2 * h);
      BOOST_CHECK_LE(std::abs(static_cast<double>(difference - Quad(product))),
                     gradient_tolerance * terms);
    }
  }
}

/// g_i = d/dx_i loss(x) for every coordinate, within 1e-14 max |g| of its tensor. Small x only.
template <class Loss>
void check_coordinates(const std::vector<Vector>& x, const std::vector<Vector>& g,
                       const Loss& loss) {
  for (size_t t = 0; t < x.size(); ++t) {
    double largest = 0, error = 0;
    for (size_t i = 0; i < x[t].size(); ++i) {
      auto moved = convert<Dual<double>>(x);
      moved[t][i].derivative = 1;
      error = std::max(error, std::abs(loss(moved).derivative - g[t][i]));
      largest = std::max(largest, std::abs(g[t][i]));
    }
    BOOST_TEST_CONTEXT("tensor " << t) {
      BOOST_CHECK_LE(error, gradient_tolerance * largest);
    }
  }
}

/// Whether two arrays hold the same bits.
inline bool same_bits(const Vector& a, const Vector& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

}  // namespace bdlm::test
