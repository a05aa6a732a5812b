// Linear layers, RMSNorm, RoPE and SwiGLU: values, gradients, and independence of threads.

#include <boost/test/unit_test.hpp>

#include "reference/math/exact.h"
#include "reference/math/linear.h"
#include "reference/math/rms_norm.h"
#include "reference/math/rope.h"
#include "reference/math/swiglu.h"
#include "reference/math/test_support.h"

using namespace bdlm;
using test::Vector;

BOOST_AUTO_TEST_SUITE(layers)

namespace {

template <class T>
std::vector<T> linear(const std::vector<std::vector<T>>& x, int64_t rows, int64_t in, int64_t out) {
  std::vector<T> y(rows * out, T(77));
  linear_forward(rows, in, out, x[0].data(), x[1].data(), y.data());
  return y;
}

}  // namespace

// y_ro = sum_i x_ri W_oi, |error| <= u53 (2 + in) sum |x_ri W_oi|, over sizes around the tiles'
// own.
BOOST_AUTO_TEST_CASE(linear_values) {
  for (const auto& [rows, in, out] : {std::array<int64_t, 3>{1, 1, 1},
                                      {13, 5, 7},
                                      {3, 300, 97},
                                      {193, 17, 4},
                                      {12, 256, 96},
                                      {5, 513, 2},
                                      {2, 0, 3}}) {
    const std::vector<Vector> x = {test::gaussian(rows * in, 1), test::gaussian(out * in, 2)};
    const Vector y = linear(x, rows, in, out);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t o = 0; o < out; ++o) {
        Quad sum(0), terms(0);
        for (int64_t i = 0; i < in; ++i) {
          const Quad term = Quad(x[0][r * in + i]) * Quad(x[1][o * in + i]);
          sum += term;
          terms += abs(term);
        }
        BOOST_REQUIRE_LE(static_cast<double>(abs(Quad(y[r * out + o]) - sum)),
                         0x1p-53 * static_cast<double>(in + 2) * static_cast<double>(terms));
      }
    }
  }
}

// In rationals: dx = dy W and dW = dy^T x exactly, added to what is there.
BOOST_AUTO_TEST_CASE(linear_backward_exact) {
  const int64_t rows = 7, in = 5, out = 6;
  const auto make = [](int64_t n, int64_t a) {
    std::vector<Exact> x;
    for (int64_t i = 0; i < n; ++i) {
      x.emplace_back((i * a) % 23 - 11, i % 3 + 1);
    }
    return x;
  };
  const std::vector<Exact> x = make(rows * in, 7), w = make(out * in, 5), dy = make(rows * out, 11);
  std::vector<Exact> dx(rows * in, Exact(2)), dw(out * in, Exact(3));
  linear_backward(rows, in, out, x.data(), w.data(), dy.data(), dx.data(), dw.data());
  for (int64_t i = 0; i < in; ++i) {
    for (int64_t r = 0; r < rows; ++r) {
      Exact sum(2);
      for (int64_t o = 0; o < out; ++o) {
        sum += dy[r * out + o] * w[o * in + i];
      }
      BOOST_CHECK(dx[r * in + i] == sum);
    }
    for (int64_t o = 0; o < out; ++o) {
      Exact sum(3);
      for (int64_t r = 0; r < rows; ++r) {
        sum += dy[r * out + o] * x[r * in + i];
      }
      BOOST_CHECK(dw[o * in + i] == sum);
    }
  }
}

BOOST_AUTO_TEST_CASE(linear_gradients) {
  const auto check = [](int64_t rows, int64_t in, int64_t out, bool coordinates) {
    const std::vector<Vector> x = {test::gaussian(rows * in, 1), test::gaussian(out * in, 2)};
    const Vector dy = test::gaussian(rows * out, 3);
    std::vector<Vector> g = {Vector(rows * in), Vector(out * in)};
    linear_backward(rows, in, out, x[0].data(), x[1].data(), dy.data(), g[0].data(), g[1].data());
    const auto loss = [&](const auto& y) { return test::dot(dy, linear(y, rows, in, out)); };
    test::check_directions(x, g, loss);
    if (coordinates) {
      test::check_coordinates(x, g, loss);
    }
  };
  check(201, 11, 13, false);
  check(5, 270, 101, false);
  check(3, 4, 5, true);
}

// A row of y and of dx is the same bits, whichever rows are beside it.
BOOST_AUTO_TEST_CASE(linear_rows_are_independent) {
  const int64_t rows = 40, in = 300, out = 100;
  const Vector x = test::gaussian(rows * in, 1), w = test::gaussian(out * in, 2),
               dy = test::gaussian(rows * out, 3);
  Vector y(rows * out), dx(rows * in);
  linear_forward(rows, in, out, x.data(), w.data(), y.data());
  linear_backward_input(rows, in, out, w.data(), dy.data(), dx.data());
  for (const int64_t row : {0, 13, 39}) {
    Vector one_y(out), one_dx(in);
    linear_forward(1, in, out, x.data() + row * in, w.data(), one_y.data());
    linear_backward_input(1, in, out, w.data(), dy.data() + row * out, one_dx.data());
    BOOST_CHECK(std::equal(one_y.begin(), one_y.end(), y.begin() + row * out));
    BOOST_CHECK(std::equal(one_dx.begin(), one_dx.end(), dx.begin() + row * in));
  }
}

// mean(y^2) = mean(x^2) / (mean(x^2) + eps) for w = 1, and the gradients.
BOOST_AUTO_TEST_CASE(rms_norm) {
  const auto check = [](int64_t rows, int64_t features, bool coordinates) {
    const double eps = 0.3;  // large enough for its place inside the root to matter
    const std::vector<Vector> x = {test::gaussian(rows * features, 1), test::gaussian(features, 2)};
    const Vector dy = test::gaussian(rows * features, 3);
    const Vector one(features, 1.0);
    Vector y(rows * features);
    rms_norm_forward(rows, features, eps, x[0].data(), one.data(), y.data());
    for (int64_t r = 0; r < rows; ++r) {
      double before = 0, after = 0;
      for (int64_t i = r * features; i < (r + 1) * features; ++i) {
        before += x[0][i] * x[0][i] / static_cast<double>(features);
        after += y[i] * y[i] / static_cast<double>(features);
      }
      BOOST_REQUIRE_CLOSE_FRACTION(after, before / (before + eps), 1e-13);
    }
    std::vector<Vector> g = {Vector(rows * features), Vector(features)};
    rms_norm_backward(rows, features, eps, x[0].data(), x[1].data(), dy.data(), g[0].data(),
                      g[1].data());
    const auto loss = [&](const auto& in) {
      auto out = in[0];
      rms_norm_forward(rows, features, eps, in[0].data(), in[1].data(), out.data());
      return test::dot(dy, out);
    };
    test::check_directions(x, g, loss);
    if (coordinates) {
      test::check_coordinates(x, g, loss);
    }
  };
  check(150, 17, false);
  check(3, 5, true);
}

// Channel pair (a, b) at position m: (a cos - b sin, b cos + a sin) at angle m theta^(-2i/D).
BOOST_AUTO_TEST_CASE(rope) {
  const int64_t heads = 2, d = 6, rows = 5;
  const double theta = 10000;
  const std::vector<int64_t> positions = {0, 1, 7, 131071, 3};
  const std::vector<Vector> x = {test::gaussian(rows * heads * d, 1)};
  Vector y = x[0];
  rope_forward<double>(heads, d, theta, positions, y.data());
  double largest = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < d / 2; ++i) {
        const Quad angle = Quad(positions[r]) * pow(Quad(theta), Quad(-2 * i) / Quad(d));
        const int64_t at = (r * heads + h) * d + i;
        const Quad a(x[0][at]), b(x[0][at + d / 2]);
        const Quad ea = Quad(y[at]) - (a * cos(angle) - b * sin(angle));
        const Quad eb = Quad(y[at + d / 2]) - (b * cos(angle) + a * sin(angle));
        largest = std::max({largest, static_cast<double>(abs(ea)), static_cast<double>(abs(eb))});
      }
    }
  }
  // Angles up to 1.3e5 are known to 1.3e5 * 2^-63.
  BOOST_CHECK_LE(largest, 5e-14);
  for (int64_t i = 0; i < heads * d; ++i) {
    BOOST_CHECK_EQUAL(y[i], x[0][i]);  // position 0
  }

  const Vector dy = test::gaussian(rows * heads * d, 2);
  std::vector<Vector> g = {dy};
  rope_backward<double>(heads, d, theta, positions, g[0].data());
  const auto loss = [&](const auto& in) {
    auto out = in[0];
    rope_forward<typename std::decay_t<decltype(out)>::value_type>(heads, d, theta, positions,
                                                                   out.data());
    return test::dot(dy, out);
  };
  test::check_directions(x, g, loss);
  test::check_coordinates(x, g, loss);

  // The product of two rotated rows depends on the difference of their positions only.
  const auto product = [&](int64_t m, int64_t n) {
    Vector a(x[0].begin(), x[0].begin() + d), b(x[0].begin() + d, x[0].begin() + 2 * d);
    rope_forward<double>(1, d, theta, std::vector<int64_t>{m}, a.data());
    rope_forward<double>(1, d, theta, std::vector<int64_t>{n}, b.data());
    return test::dot(a, b);
  };
  BOOST_CHECK_CLOSE_FRACTION(product(5, 2), product(1003, 1000), 1e-12);
  BOOST_CHECK_THROW(rope_forward<double>(1, 3, theta, positions, y.data()), InputError);
  BOOST_CHECK_THROW(rope_forward<double>(1, 4, -1.0, positions, y.data()), InputError);
}

// y = gate up / (1 + exp(-gate)), also where exp overflows; and the gradients.
BOOST_AUTO_TEST_CASE(swiglu) {
  const int64_t n = 5000;
  const std::vector<Vector> x = {test::gaussian(n, 1, 3.0), test::gaussian(n, 2)};
  const Vector dy = test::gaussian(n, 3);
  Vector y(n);
  swiglu_forward(n, x[0].data(), x[1].data(), y.data());
  for (int64_t i = 0; i < n; ++i) {
    BOOST_REQUIRE_CLOSE_FRACTION(y[i], x[0][i] * x[1][i] / (1 + std::exp(-x[0][i])), 1e-15);
  }
  const Vector gate = {-1e4, 1e4, -1e300}, up = {2, 2, 2};
  Vector extreme(3);
  swiglu_forward(3, gate.data(), up.data(), extreme.data());
  BOOST_CHECK(extreme[0] == 0 && extreme[1] == 2e4 && extreme[2] == 0);

  const auto check = [&](const std::vector<Vector>& in, bool coordinates) {
    const auto count = static_cast<int64_t>(in[0].size());
    std::vector<Vector> g = {Vector(count), Vector(count)};
    swiglu_backward(count, in[0].data(), in[1].data(), dy.data(), g[0].data(), g[1].data());
    const auto loss = [&](const auto& z) {
      auto out = z[0];
      swiglu_forward(count, z[0].data(), z[1].data(), out.data());
      return test::dot(dy, out);
    };
    test::check_directions(in, g, loss);
    if (coordinates) {
      test::check_coordinates(in, g, loss);
    }
  };
  check(x, false);
  check({test::gaussian(6, 1), test::gaussian(6, 2)}, true);
}

#ifdef _OPENMP
BOOST_AUTO_TEST_CASE(threads_do_not_matter) {
  const int before = omp_get_max_threads();
  const int64_t rows = 450, in = 30, out = 200;
  const Vector x = test::gaussian(rows * in, 1), w = test::gaussian(out * in, 2),
               dy = test::gaussian(rows * out, 3);
  std::vector<Vector> first;
  for (const int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    Vector y(rows * out), dx(rows * in), dw(out * in), dn(rows * in), dg(in);
    linear_forward(rows, in, out, x.data(), w.data(), y.data());
    linear_backward(rows, in, out, x.data(), w.data(), dy.data(), dx.data(), dw.data());
    rms_norm_backward(rows, in, 1e-6, x.data(), w.data(), dy.data(), dn.data(), dg.data());
    const std::vector<Vector> all = {y, dx, dw, dn, dg};
    if (first.empty()) {
      first = all;
    }
    for (size_t i = 0; i < all.size(); ++i) {
      BOOST_CHECK(test::same_bits(all[i], first[i]));
    }
  }
  omp_set_num_threads(before);
}
#endif

BOOST_AUTO_TEST_SUITE_END()
