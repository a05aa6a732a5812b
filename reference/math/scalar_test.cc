// dual.h, quad.h, exact.h and the vector exponential.

#include <Eigen/Core>
#include <boost/test/unit_test.hpp>
#include <random>

#include "reference/math/dual.h"
#include "reference/math/exact.h"
#include "reference/math/exp_row.h"
#include "reference/math/quad.h"

using namespace bdlm;

BOOST_AUTO_TEST_SUITE(scalars)

// f'(x) by the chain rule of Dual<Quad> = (f(x + h) - f(x - h)) / 2h + O(h^2)
BOOST_AUTO_TEST_CASE(dual_functions_agree_with_central_differences) {
  const auto check = [](const char* name, double at, const auto& f) {
    BOOST_TEST_CONTEXT(name) {
      const Quad x(at), h("1e-11");
      const Quad difference = (f(Dual<Quad>(x + h)).value - f(Dual<Quad>(x - h)).value) / (2 * h);
      const Quad derivative = f(Dual<Quad>(x, Quad(1))).derivative;
      BOOST_CHECK_NE(derivative, Quad(0));
      BOOST_CHECK_LE(static_cast<double>(abs(difference - derivative)), 1e-19);
    }
  };
  for (const double x : {0.3, 0.7, 1.9}) {
    check("exp", x, [](auto v) { return exp(v); });
    check("expm1", x, [](auto v) { return expm1(v); });
    check("log", x, [](auto v) { return log(v); });
    check("log1p", x, [](auto v) { return log1p(v); });
    check("sqrt", x, [](auto v) { return sqrt(v); });
    check("tanh", x, [](auto v) { return tanh(v); });
    check("sin", x, [](auto v) { return sin(v); });
    check("cos", x, [](auto v) { return cos(v); });
    check("abs", -x, [](auto v) { return abs(v); });
    check("pow", x, [](auto v) { return pow(v, v * v); });
    check("rational", x, [](auto v) {
      auto y = (v * v - 3) / (2 + v) - -v;
      y += v * v;
      y -= 2 / v;
      y *= v;
      y /= 1 + v;
      return y;
    });
  }
}

// d^2/dx^2 exp(x^2) = (2 + 4 x^2) exp(x^2), by a dual number of dual numbers
BOOST_AUTO_TEST_CASE(dual_numbers_nest) {
  using D = Dual<double>;
  const Dual<D> x(D(0.5, 1), D(1, 0));
  const double second = exp(x * x).derivative.derivative;
  BOOST_CHECK_CLOSE_FRACTION(second, 3 * std::exp(0.25), 1e-15);
}

BOOST_AUTO_TEST_CASE(dual_compares_by_value) {
  const Dual<double> a(1, 5), b(1, -5), c(2, 0);
  BOOST_CHECK(a == b && a < c && c > b && a <= b && a >= b && a != c);
  BOOST_CHECK(isinf(Dual<double>(std::numeric_limits<Dual<double>>::infinity())));
  BOOST_CHECK(constant_part(a).derivative == 0 && constant_part(a).value == 1);
}

BOOST_AUTO_TEST_CASE(exact_arithmetic) {
  const Exact third(1, 3), half(1, 2);
  BOOST_CHECK(third + half == Exact(5, 6));
  BOOST_CHECK(third - half == Exact(-1, 6));
  BOOST_CHECK(third * half == Exact(1, 6));
  BOOST_CHECK(third / half == Exact(2, 3));
  BOOST_CHECK(abs(third - half) == Exact(1, 6) && third < half && half >= third);
  Exact sum;
  for (int i = 0; i < 10; ++i) {
    sum += Exact(1, 10);
  }
  BOOST_CHECK(sum == Exact(1));
  BOOST_CHECK_EQUAL(static_cast<double>(half), 0.5);
}

// The weight hook depends on the score alone, lies in 1..7 and uses all of that.
BOOST_AUTO_TEST_CASE(exact_weights) {
  std::array<int, 8> count{};
  for (int64_t n = -200; n <= 200; ++n) {
    const int64_t w = exact_weight(Exact(n, 12));
    BOOST_REQUIRE(w >= 1 && w <= 7);
    BOOST_CHECK_EQUAL(w, exact_weight(Exact(n) / Exact(4) / Exact(3)));
    ++count[w];
  }
  for (int w = 1; w <= 7; ++w) {
    BOOST_CHECK_GE(count[w], 20);
  }
}

// A scalar works in Eigen: (A B) C = A (B C) on small integers, exactly.
template <class T>
void check_eigen() {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
  Matrix a(9, 7), b(7, 5), c(5, 3);
  int n = 0;
  const auto fill = [&n](Matrix& m) {
    for (int i = 0; i < m.rows(); ++i) {
      for (int j = 0; j < m.cols(); ++j) {
        m(i, j) = T(n++ * 37 % 19 - 9);
      }
    }
  };
  fill(a);
  fill(b);
  fill(c);
  const Matrix left = (a * b) * c;
  const Matrix right = a * (b * c);
  BOOST_CHECK(left == right);
  BOOST_CHECK(left(0, 0) != T(0));
}

BOOST_AUTO_TEST_CASE(scalars_work_in_eigen) {
  check_eigen<Exact>();
  check_eigen<Dual<double>>();
  check_eigen<Quad>();
}

// |vector_exp(x) - exp(x)| <= 1 ulp, against quadruple precision; underflow is gradual.
BOOST_AUTO_TEST_CASE(exponentials_of_a_row) {
  std::mt19937_64 engine(5);
  std::uniform_real_distribution<double> wide(-750, 712), near(-2, 2);
  double worst = 0;
  std::vector<double> x(4003), y;
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = i % 2 == 0 ? wide(engine) : near(engine);
  }
  y = x;
  exp_row(static_cast<int64_t>(y.size()), 0.0, y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const Quad exact = exp(Quad(x[i]));
    const auto rounded = static_cast<double>(exact);
    if (std::isinf(rounded)) {
      BOOST_CHECK_EQUAL(y[i], rounded);
      continue;
    }
    const double ulp = std::nextafter(rounded, HUGE_VAL) - rounded;
    worst = std::max(worst, std::abs(static_cast<double>((Quad(y[i]) - exact) / Quad(ulp))));
  }
  BOOST_CHECK_LE(worst, 1.0);
  BOOST_CHECK_GE(worst, 0.4);

  // The sum, over lengths with every remainder of the vector loop; a shift is subtracted first.
  for (int64_t n = 1; n <= 9; ++n) {
    std::vector<double> row(n);
    double expected = 0;
    for (int64_t i = 0; i < n; ++i) {
      row[i] = near(engine);
      expected += std::exp(row[i] - 0.7);
    }
    BOOST_CHECK_CLOSE_FRACTION(exp_row(n, 0.7, row.data()), expected, 1e-14);
  }

  constexpr double inf = std::numeric_limits<double>::infinity();
  std::vector<double> special = {0.0, -0.0, -inf, -1e300, -746.0, inf, 1e300, NAN, -745.0};
  exp_row(static_cast<int64_t>(special.size()), 0.0, special.data());
  BOOST_CHECK(special[0] == 1 && special[1] == 1);
  BOOST_CHECK(special[2] == 0 && special[3] == 0 && special[4] == 0);
  BOOST_CHECK(special[5] == inf && special[6] == inf && std::isnan(special[7]));
  BOOST_CHECK_EQUAL(special[8], std::exp(-745.0));
}

BOOST_AUTO_TEST_SUITE_END()
