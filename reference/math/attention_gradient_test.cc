// The hand-written backward of attention against forward-mode derivatives and a central difference.

#include <boost/test/unit_test.hpp>

#include "reference/math/attention.h"
#include "reference/math/test_support.h"

using namespace bdlm;
using test::Vector;

BOOST_AUTO_TEST_SUITE(attention_gradients)

namespace {

struct Case {
  AttentionShape shape;
  int64_t n;
  std::vector<Interval> keys;
  std::vector<int64_t> cuts;  // parts of the keys, merged one after another
};

std::vector<Interval> part(const Case& c, size_t i) {
  std::vector<Interval> keys;
  for (const Interval& all : c.keys) {
    keys.push_back(intersect(all, {c.cuts[i], c.cuts[i + 1]}));
  }
  return keys;
}

template <class T>
void forward(const Case& c, const std::vector<std::vector<T>>& x, std::vector<T>& o,
             std::vector<T>& lse) {
  o.assign(x[0].size(), T(0));
  lse.assign(c.keys.size() * c.shape.q_heads, LogDomain<T>::empty());
  const T scale(1 / std::sqrt(static_cast<double>(c.shape.head_dim)));
  for (size_t i = 0; i + 1 < c.cuts.size(); ++i) {
    attention_forward<T>(c.shape, scale, part(c, i), x[0].data(), x[1].data(), x[2].data(),
                         o.data(), lse.data(), {.query_tile = 8, .key_tile = 12});
  }
}

void check(const Case& c, bool coordinates) {
  const auto rows = static_cast<int64_t>(c.keys.size());
  const int64_t nq = rows * c.shape.q_heads * c.shape.head_dim;
  const int64_t nk = c.n * c.shape.kv_heads * c.shape.head_dim;
  const std::vector<Vector> x = {test::gaussian(nq, 1), test::gaussian(nk, 2),
                                 test::gaussian(nk, 3)};
  const Vector d_o = test::gaussian(nq, 4);
  std::vector<Vector> g = {Vector(nq), Vector(nk), Vector(nk)};
  Vector o, lse;
  forward(c, x, o, lse);
  const double scale = 1 / std::sqrt(static_cast<double>(c.shape.head_dim));
  for (size_t i = 0; i + 1 < c.cuts.size(); ++i) {
    attention_backward<double>(c.shape, scale, part(c, i), x[0].data(), x[1].data(), x[2].data(),
                               o.data(), lse.data(), d_o.data(), g[0].data(), g[1].data(),
                               g[2].data(), {.query_tile = 24, .key_tile = 12});
  }
  // loss = <d_o, O>
  const auto loss = [&](const auto& y) {
    auto out = y[0];
    auto z = y[0];
    forward(c, y, out, z);
    return test::dot(d_o, out);
  };
  test::check_directions(x, g, loss);
  if (coordinates) {
    test::check_coordinates(x, g, loss);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(dense) {
  check({{2, 2, 8}, 13, std::vector<Interval>(9, {0, 13}), {0, 13}}, false);
}

BOOST_AUTO_TEST_CASE(grouped_heads_irregular_keys) {
  check({{6, 2, 5}, 14, {{0, 3}, {2, 14}, {5, 5}, {13, 14}, {0, 14}, {4, 9}, {1, 6}}, {0, 14}},
        false);
}

BOOST_AUTO_TEST_CASE(merged_from_parts) {
  check({{4, 1, 6}, 20, {{0, 20}, {7, 20}, {0, 1}, {19, 20}, {3, 12}}, {0, 4, 5, 13, 20}}, false);
}

BOOST_AUTO_TEST_CASE(coordinates) {
  check({{2, 1, 3}, 6, {{0, 6}, {1, 4}, {2, 2}, {5, 6}}, {0, 2, 6}}, true);
}

BOOST_AUTO_TEST_SUITE_END()
