#include "reference/math/cross_entropy.h"

#include <boost/test/unit_test.hpp>

#include "reference/math/test_support.h"

using namespace bdlm;
using test::Vector;

BOOST_AUTO_TEST_SUITE(cross_entropy)

namespace {

struct Case {
  CrossEntropyShape shape;
  std::vector<int64_t> labels;
  Vector weights;
  CrossEntropyOptions options;
};

/// 10 rows of which 0 and 9 are ignored, 13 tokens; row 4 has a label but no weight.
Case ten_rows() {
  return {
      {10, 7, 13}, {-1, 3, 12, 0, 5, 8, 3, 7, 1, -1}, {1, 0.5, 2, 1.25, 0, 3, 0.1, 1, 1, 1}, {}};
}

std::vector<Vector> inputs(const Case& c, double size = 1.0) {
  return {test::gaussian(c.shape.rows * c.shape.hidden, 1, size),
          test::gaussian(c.shape.vocab * c.shape.hidden, 2)};
}

template <class T>
T loss(const Case& c, const std::vector<std::vector<T>>& x) {
  const std::vector<T> weights = test::convert<T>(c.weights);
  return cross_entropy_forward<T>(c.shape, x[0].data(), x[1].data(), c.labels, weights, c.options);
}

std::vector<Vector> gradients(const Case& c, const std::vector<Vector>& x, double upstream) {
  std::vector<Vector> g = {Vector(x[0].size()), Vector(x[1].size())};
  cross_entropy_backward<double>(c.shape, x[0].data(), x[1].data(), c.labels, c.weights, upstream,
                                 g[0].data(), g[1].data(), c.options);
  return g;
}

/// The definition, row by row, in quadruple precision.
Quad direct(const Case& c, const std::vector<Vector>& x) {
  Quad total(0);
  for (int64_t r = 0; r < c.shape.rows; ++r) {
    if (c.labels[r] < 0) {
      continue;
    }
    Quad sum(0), target(0);
    for (int64_t j = 0; j < c.shape.vocab; ++j) {
      Quad logit(0);
      for (int64_t h = 0; h < c.shape.hidden; ++h) {
        logit += Quad(x[0][r * c.shape.hidden + h]) * Quad(x[1][j * c.shape.hidden + h]);
      }
      if (c.options.softcap > 0) {
        logit = Quad(c.options.softcap) * tanh(logit / Quad(c.options.softcap));
      }
      sum += j == c.options.excluded ? Quad(0) : exp(logit);
      target = j == c.labels[r] ? logit : target;
    }
    total += Quad(c.weights[r]) * (log(sum) - target);
  }
  return total;
}

std::vector<CrossEntropyOptions> all_options() {
  return {{},
          {.excluded = 6},
          {.softcap = 1.5},
          {.excluded = 6, .softcap = 1.5},
          {.excluded = 2, .softcap = 30}};
}

}  // namespace

// sum w (log sum exp(x) - x_label)
BOOST_AUTO_TEST_CASE(values) {
  for (const CrossEntropyOptions& options : all_options()) {
    Case c = ten_rows();
    c.options = options;
    for (const double size : {1.0, 200.0}) {  // up to logits of about 1e3
      const std::vector<Vector> x = inputs(c, size);
      BOOST_CHECK_CLOSE_FRACTION(loss(c, x), static_cast<double>(direct(c, x)), 1e-14);
    }
  }
}

BOOST_AUTO_TEST_CASE(gradients_by_dual_numbers_and_differences) {
  for (const CrossEntropyOptions& options : all_options()) {
    Case c = ten_rows();
    c.options = options;
    c.options.row_chunk = 3;
    const std::vector<Vector> x = inputs(c);
    const double upstream = -0.7;
    const auto f = [&](const auto& y) {
      using T = typename std::decay_t<decltype(y[0])>::value_type;
      return T(T(upstream) * loss(c, y));
    };
    const std::vector<Vector> g = gradients(c, x, upstream);
    test::check_directions(x, g, f);
    test::check_coordinates(x, g, f);
  }
}

// Chunks of 1, 3, 4, 10, 16 rows, some of which hold ignored rows only: one loss, one gradient.
BOOST_AUTO_TEST_CASE(chunks_do_not_matter) {
  Case c = ten_rows();
  c.options.excluded = 6;
  const std::vector<Vector> x = inputs(c);
  const double whole = loss(c, x);
  const std::vector<Vector> g = gradients(c, x, 1);
  for (const int64_t chunk : {1, 3, 4, 10, 16}) {
    c.options.row_chunk = chunk;
    BOOST_CHECK_EQUAL(loss(c, x), whole);
    const std::vector<Vector> h = gradients(c, x, 1);
    BOOST_CHECK(test::same_bits(h[0], g[0]));
    for (size_t i = 0; i < g[1].size(); ++i) {
      BOOST_CHECK_SMALL(h[1][i] - g[1][i], 1e-14);
    }
  }
}

// Ignored rows contribute exactly nothing, even if they hold NaN; the excluded logit has no
// gradient.
BOOST_AUTO_TEST_CASE(what_is_ignored) {
  Case c = ten_rows();
  c.options.excluded = 6;
  std::vector<Vector> x = inputs(c);
  const double whole = loss(c, x);
  const std::vector<Vector> g = gradients(c, x, 1);
  for (const int64_t row : {0, 4, 9}) {
    for (int64_t h = 0; h < 7; ++h) {
      BOOST_CHECK_EQUAL(g[0][row * 7 + h], 0);
      x[0][row * 7 + h] = NAN;
    }
  }
  for (int64_t h = 0; h < 7; ++h) {
    BOOST_CHECK_EQUAL(g[1][6 * 7 + h], 0);
  }
  BOOST_CHECK_EQUAL(loss(c, x), whole);
  BOOST_CHECK(test::same_bits(gradients(c, x, 1)[1], g[1]));
  x[0][7] = NAN;  // a counted row is not hidden
  BOOST_CHECK(std::isnan(loss(c, x)));

  c.labels.assign(10, -1);
  BOOST_CHECK_EQUAL(loss(c, x), 0);
  for (const Vector& none : gradients(c, x, 1)) {
    BOOST_CHECK(std::all_of(none.begin(), none.end(), [](double y) { return y == 0; }));
  }
}

// The upstream gradient scales every gradient; gradients are added to what is there.
BOOST_AUTO_TEST_CASE(upstream_and_accumulation) {
  const Case c = ten_rows();
  const std::vector<Vector> x = inputs(c);
  const std::vector<Vector> one = gradients(c, x, 1), four = gradients(c, x, 4);
  std::vector<Vector> twice = one;
  cross_entropy_backward<double>(c.shape, x[0].data(), x[1].data(), c.labels, c.weights, 1.0,
                                 twice[0].data(), twice[1].data(), c.options);
  for (size_t t = 0; t < 2; ++t) {
    for (size_t i = 0; i < one[t].size(); ++i) {
      BOOST_CHECK_EQUAL(four[t][i], 4 * one[t][i]);
      BOOST_CHECK_EQUAL(twice[t][i], 2 * one[t][i]);
    }
  }
}

BOOST_AUTO_TEST_CASE(bad_input) {
  const Case good = ten_rows();
  const std::vector<Vector> x = inputs(good);
  BOOST_CHECK_NO_THROW(loss(good, x));
  const auto throws = [&](const auto& change) {
    Case c = good;
    change(c);
    BOOST_CHECK_THROW(loss(c, x), InputError);
    BOOST_CHECK_THROW(gradients(c, x, 1), InputError);
  };
  throws([](Case& c) { c.labels[2] = 13; });
  throws([](Case& c) { c.labels[2] = -2; });
  throws([](Case& c) { c.options.excluded = 8; });  // the label of row 5
  throws([](Case& c) { c.options.excluded = 13; });
  throws([](Case& c) { c.options.excluded = -2; });
  throws([](Case& c) { c.options.softcap = -1; });
  throws([](Case& c) { c.options.row_chunk = 0; });
  throws([](Case& c) { c.labels.pop_back(); });
  throws([](Case& c) { c.weights.pop_back(); });
  Case ignored = good;
  ignored.options.excluded = 5;  // the label of row 4, whose weight is 0
  BOOST_CHECK_NO_THROW(loss(ignored, x));
}

BOOST_AUTO_TEST_SUITE_END()
