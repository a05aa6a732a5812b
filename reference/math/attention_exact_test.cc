// Attention in rational arithmetic: ways of dividing the keys are one function, by `==`.

#include <boost/test/unit_test.hpp>

#include "reference/math/attention.h"
#include "reference/math/exact.h"
#include "reference/math/test_support.h"

using namespace bdlm;

BOOST_AUTO_TEST_SUITE(attention_exact)

namespace {

std::vector<Exact> rationals(int64_t n, uint32_t tensor) {
  const Philox philox(7, tensor);
  std::vector<Exact> x;
  for (int64_t i = 0; i < n; ++i) {
    x.emplace_back(philox.below(2 * i, 19) - 9, philox.below(2 * i + 1, 5) + 1);
  }
  return x;
}

struct ExactProblem {
  AttentionShape shape{4, 2, 3};
  int64_t rows = 11, n = 15;
  Exact scale{3, 5};
  std::vector<Interval> keys;
  std::vector<Exact> q = rationals(rows * 12, 1), k = rationals(n * 6, 2), v = rationals(n * 6, 3),
                     d_o = rationals(rows * 12, 4);

  ExactProblem() {
    for (int64_t i = 0; i < rows; ++i) {
      keys.push_back(i % 4 == 2 ? Interval{0, 0} : Interval{i / 3, std::min(n, 2 * i + 1)});
    }
  }
};

struct ExactResult {
  std::vector<Exact> o, l, dq, dk, dv;
  friend bool operator==(const ExactResult&, const ExactResult&) = default;
};

/// The keys in the given parts, each an interval; forward in that order, backward in the opposite.
ExactResult run(const ExactProblem& p, const std::vector<Interval>& parts,
                const AttentionOptions& options = {}) {
  ExactResult x{std::vector<Exact>(p.q.size()), std::vector<Exact>(p.rows * p.shape.q_heads),
                std::vector<Exact>(p.q.size()), std::vector<Exact>(p.k.size()),
                std::vector<Exact>(p.k.size())};
  const auto part_keys = [&](const Interval& part) {
    std::vector<Interval> keys;
    for (const Interval& all : p.keys) {
      keys.push_back(intersect(all, part));
    }
    return keys;
  };
  for (auto part = parts.begin(); part != parts.end(); ++part) {
    attention_forward<Exact>(p.shape, p.scale, part_keys(*part), p.q.data(), p.k.data(), p.v.data(),
                             x.o.data(), x.l.data(), options);
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    attention_backward<Exact>(p.shape, p.scale, part_keys(*part), p.q.data(), p.k.data(),
                              p.v.data(), x.o.data(), x.l.data(), p.d_o.data(), x.dq.data(),
                              x.dk.data(), x.dv.data(), options);
  }
  return x;
}

}  // namespace

// O = sum w v / sum w, l = sum w, for the integer weights w of the scores.
BOOST_AUTO_TEST_CASE(weighted_means) {
  const ExactProblem p;
  const ExactResult x = run(p, {{0, p.n}});
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t h = 0; h < 4; ++h) {
      Exact l(0), o[3];
      for (int64_t j = p.keys[r].begin; j < p.keys[r].end; ++j) {
        const int64_t key = (j * 2 + h / 2) * 3;
        Exact s(0);
        for (int64_t i = 0; i < 3; ++i) {
          s += p.q[(r * 4 + h) * 3 + i] * p.k[key + i];
        }
        const Exact w = exact_weight(p.scale * s);
        l += w;
        for (int64_t i = 0; i < 3; ++i) {
          o[i] += w * p.v[key + i];
        }
      }
      BOOST_REQUIRE(x.l[r * 4 + h] == l);
      for (int64_t i = 0; i < 3; ++i) {
        BOOST_REQUIRE(l == Exact(0) || x.o[(r * 4 + h) * 3 + i] == o[i] / l);
      }
    }
  }
}

// Any split of the keys, any order of the parts, any tiles: equal O, l, dQ, dK, dV.
BOOST_AUTO_TEST_CASE(splits_are_one_function) {
  const ExactProblem p;
  const ExactResult whole = run(p, {{0, p.n}});
  BOOST_CHECK(run(p, {{0, 7}, {7, p.n}}) == whole);
  BOOST_CHECK(run(p, {{9, p.n}, {0, 2}, {2, 9}}) == whole);
  BOOST_CHECK(run(p, {{0, 7}, {7, 7}, {7, p.n}}) == whole);
  BOOST_CHECK(run(p, {{0, p.n}}, {.query_tile = 4, .key_tile = 3}) == whole);
  BOOST_CHECK(run(p, {{3, p.n}, {0, 3}}, {.reverse_tiles = true, .query_tile = 8, .key_tile = 2}) ==
              whole);
  std::vector<Interval> singles;
  for (int64_t j = 0; j < p.n; ++j) {
    singles.push_back({j, j + 1});
  }
  BOOST_CHECK(run(p, singles) == whole);
  // What differs is seen to differ: a key dropped, a key counted twice.
  BOOST_CHECK(!(run(p, {{0, 7}, {8, p.n}}) == whole));
  BOOST_CHECK(!(run(p, {{0, 8}, {7, p.n}}) == whole));
}

// sum over keys of dS = 0 for every row, hence sum of dK = 0 weighted by nothing but q: with q the
// same for all rows of a head group, dK summed over keys vanishes.
BOOST_AUTO_TEST_CASE(score_gradients_sum_to_zero) {
  ExactProblem p;
  for (size_t i = 0; i < p.q.size(); ++i) {
    p.q[i] = p.q[i % 3];
  }
  const ExactResult x = run(p, {{0, 4}, {4, p.n}});
  for (int64_t i = 0; i < 6; ++i) {
    Exact sum(0), size(0);
    for (int64_t j = 0; j < p.n; ++j) {
      sum += x.dk[j * 6 + i];
      size += abs(x.dk[j * 6 + i]);
    }
    BOOST_CHECK(sum == Exact(0) && size > Exact(0));
  }
}

BOOST_AUTO_TEST_SUITE_END()
