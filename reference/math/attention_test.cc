// Attention in double against the textbook loops in quadruple precision, over shapes, masks and
// splits that find faults; and its exact properties.

#include "reference/math/attention.h"

#include <boost/test/unit_test.hpp>

#include "reference/math/attention_naive.h"
#include "reference/math/test_support.h"

using namespace bdlm;
using test::Vector;

BOOST_AUTO_TEST_SUITE(attention)

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

enum class Mask { all, single, causal, blocks, window, irregular };

std::vector<Interval> make_keys(Mask mask, int64_t rows, int64_t keys) {
  std::vector<Interval> out;
  const Philox philox(3, 50);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t at = i * keys / rows;
    switch (mask) {
      case Mask::all:
        out.push_back({0, keys});
        break;
      case Mask::single:
        out.push_back({at, at + 1});
        break;
      case Mask::causal:
        out.push_back({0, at});  // the first rows see nothing
        break;
      case Mask::blocks:
        out.push_back({at / 5 * 5, std::min(keys, at / 5 * 5 + 5)});
        break;
      case Mask::window:
        out.push_back({std::max<int64_t>(0, at - 6), at + 1});
        break;
      case Mask::irregular: {
        const int64_t a = philox.below(2 * i, keys + 1), b = philox.below(2 * i + 1, keys + 1);
        out.push_back(i % 4 == 1 ? Interval{a, a} : Interval{std::min(a, b), std::max(a, b)});
        break;
      }
    }
  }
  return out;
}

struct Problem {
  AttentionShape shape;
  std::vector<Interval> keys;  // (R)
  int64_t n;                   // keys
  double scale;
  Vector q, k, v, d_o;

  Problem(const AttentionShape& s, int64_t rows, int64_t key_count, Mask mask, double size = 1.0)
      : shape(s),
        keys(make_keys(mask, rows, key_count)),
        n(key_count),
        scale(1 / std::sqrt(static_cast<double>(s.head_dim))),
        q(test::gaussian(rows * s.q_heads * s.head_dim, 1, size)),
        k(test::gaussian(n * s.kv_heads * s.head_dim, 2)),
        v(test::gaussian(n * s.kv_heads * s.head_dim, 3)),
        d_o(test::gaussian(rows * s.q_heads * s.head_dim, 4)) {}

  int64_t rows() const { return static_cast<int64_t>(keys.size()); }

  NaiveAttention<Quad> naive() const {
    NaiveAttention<Quad> out;
    out.rows = rows();
    out.keys = n;
    out.q_heads = shape.q_heads;
    out.kv_heads = shape.kv_heads;
    out.head_dim = shape.head_dim;
    out.scale = Quad(scale);
    out.seen = keys;
    out.q = test::convert<Quad>(q);
    out.k = test::convert<Quad>(k);
    out.v = test::convert<Quad>(v);
    out.d_o = test::convert<Quad>(d_o);
    out.compute();
    return out;
  }
};

struct Result {
  Vector o, lse, dq, dk, dv;
};

/// Forward into a state, part of the keys by part; then the backward of every part with the merged
/// state. Part i holds the keys [cuts[i], cuts[i+1]), given to the functions as arrays of their
/// own.
Result run(const Problem& p, std::vector<int64_t> cuts = {}, const AttentionOptions& options = {}) {
  if (cuts.empty()) {
    cuts = {0, p.n};
  }
  Result x{Vector(p.q.size()), Vector(p.rows() * p.shape.q_heads, -inf), Vector(p.q.size()),
           Vector(p.k.size()), Vector(p.k.size())};
  const int64_t key_size = p.shape.kv_heads * p.shape.head_dim;
  const auto each_part = [&](const auto& f) {
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      std::vector<Interval> keys;
      for (const Interval& all : p.keys) {
        const Interval part = intersect(all, {cuts[i], cuts[i + 1]});
        keys.push_back(part.empty() ? Interval{0, 0}
                                    : Interval{part.begin - cuts[i], part.end - cuts[i]});
      }
      f(keys, cuts[i] * key_size);
    }
  };
  each_part([&](const std::vector<Interval>& keys, int64_t at) {
    attention_forward<double>(p.shape, p.scale, keys, p.q.data(), p.k.data() + at, p.v.data() + at,
                              x.o.data(), x.lse.data(), options);
  });
  each_part([&](const std::vector<Interval>& keys, int64_t at) {
    attention_backward<double>(p.shape, p.scale, keys, p.q.data(), p.k.data() + at, p.v.data() + at,
                               x.o.data(), x.lse.data(), p.d_o.data(), x.dq.data(),
                               x.dk.data() + at, x.dv.data() + at, options);
  });
  return x;
}

void check_tensor(const char* name, const Vector& x, const std::vector<Quad>& expected,
                  const std::vector<Quad>& terms, double factor) {
  BOOST_REQUIRE_EQUAL(x.size(), expected.size());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto error = static_cast<double>(abs(Quad(x[i]) - expected[i]));
    const double bound = 0x1p-53 * factor * static_cast<double>(terms[i]);
    if (!(error <= bound)) {
      worst = std::max(worst, bound > 0 ? error / bound : inf);
    }
    if (std::isnan(x[i])) {
      worst = inf;
    }
  }
  BOOST_TEST_CONTEXT(name) {
    BOOST_CHECK_EQUAL(worst, 0);
  }
}

/// |x - exact| <= u53 A (16 + 4 S_max + chain): A the sum of an element's absolute terms (1 for the
/// log-sum-exp), chain the longest sum, S_max the largest scale * sum |q||k|.
void check(const Result& x, const Problem& p, const NaiveAttention<Quad>& exact) {
  const auto chain =
      static_cast<double>(std::max({p.n, p.shape.head_dim, p.rows() * p.shape.group()}));
  const double factor = 16 + 4 * static_cast<double>(exact.largest_score) + chain;
  check_tensor("O", x.o, exact.o, exact.o_terms, factor);
  check_tensor("dQ", x.dq, exact.dq, exact.dq_terms, factor);
  check_tensor("dK", x.dk, exact.dk, exact.dk_terms, factor);
  check_tensor("dV", x.dv, exact.dv, exact.dv_terms, factor);
  for (size_t i = 0; i < x.lse.size(); ++i) {
    if (isinf(exact.lse[i])) {
      BOOST_CHECK_EQUAL(x.lse[i], -inf);
    } else {
      BOOST_CHECK_LE(static_cast<double>(abs(Quad(x.lse[i]) - exact.lse[i])), 0x1p-53 * factor);
    }
  }
}

std::vector<int64_t> even_cuts(int64_t n, int64_t parts) {
  std::vector<int64_t> cuts;
  for (int64_t i = 0; i <= parts; ++i) {
    cuts.push_back(n * i / parts);
  }
  return cuts;
}

}  // namespace

// Every mask over odd shapes: GQA groups 1, 3, 4, 16; D 1, 3, 64, 96; one key; in one part and in
// two to eight; tiles in either order, of default size and small enough to have many.
BOOST_AUTO_TEST_CASE(agrees_with_the_textbook) {
  struct Shape {
    AttentionShape shape;
    int64_t rows, keys;
  };
  const std::vector<Shape> shapes = {{{1, 1, 1}, 7, 5},   {{3, 1, 3}, 23, 29}, {{4, 4, 64}, 13, 31},
                                     {{8, 2, 3}, 31, 17}, {{16, 1, 3}, 9, 40}, {{2, 2, 96}, 25, 26},
                                     {{6, 2, 1}, 1, 1},   {{4, 1, 8}, 50, 60}};
  int64_t parts = 2;
  for (const Shape& s : shapes) {
    for (const Mask mask :
         {Mask::all, Mask::single, Mask::causal, Mask::blocks, Mask::window, Mask::irregular}) {
      BOOST_TEST_CONTEXT("Hq " << s.shape.q_heads << " Hkv " << s.shape.kv_heads << " D "
                               << s.shape.head_dim << " R " << s.rows << " N " << s.keys << " mask "
                               << static_cast<int>(mask)) {
        const Problem p(s.shape, s.rows, s.keys, mask);
        const NaiveAttention<Quad> exact = p.naive();
        check(run(p), p, exact);
        check(run(p, {}, {.reverse_tiles = true, .query_tile = 8, .key_tile = 12}), p, exact);
        check(run(p, even_cuts(s.keys, std::min(parts, s.keys))), p, exact);
        parts = parts == 8 ? 2 : parts + 1;
      }
    }
  }
}

// The default tile sizes, with more rows and keys than one tile holds.
BOOST_AUTO_TEST_CASE(several_default_tiles) {
  for (const Mask mask : {Mask::causal, Mask::irregular}) {
    const Problem p({2, 1, 5}, 210, 230, mask);
    const NaiveAttention<Quad> exact = p.naive();
    check(run(p), p, exact);
    check(run(p, {}, {.reverse_tiles = true}), p, exact);
    check(run(p, even_cuts(p.n, 3)), p, exact);
  }
}

// Scores of about +-80 and +-1e4: probabilities that are 0 or 1 to all digits, no overflow.
BOOST_AUTO_TEST_CASE(large_scores) {
  for (const double size : {40.0, 5e3}) {
    for (const Mask mask : {Mask::all, Mask::irregular}) {
      const Problem p({4, 2, 16}, 19, 37, mask, size);
      const NaiveAttention<Quad> exact = p.naive();
      BOOST_CHECK_GE(static_cast<double>(exact.largest_score), 2 * size);
      check(run(p), p, exact);
      check(run(p, even_cuts(p.n, 5)), p, exact);
    }
  }
}

// With a merged z far above the local scores, P underflows to 0: gradients are 0, not NaN.
BOOST_AUTO_TEST_CASE(merged_lse_far_above) {
  const Problem p({2, 1, 8}, 15, 21, Mask::all);
  Result x = run(p);
  for (double& z : x.lse) {
    z += 2000;
  }
  for (Vector* g : {&x.dq, &x.dk, &x.dv}) {
    std::fill(g->begin(), g->end(), 0.0);
  }
  attention_backward<double>(p.shape, p.scale, p.keys, p.q.data(), p.k.data(), p.v.data(),
                             x.o.data(), x.lse.data(), p.d_o.data(), x.dq.data(), x.dk.data(),
                             x.dv.data());
  for (const Vector* g : {&x.dq, &x.dk, &x.dv}) {
    BOOST_CHECK(std::all_of(g->begin(), g->end(), [](double y) { return y == 0; }));
  }
  // And a state far above the scores absorbs them without a trace.
  Vector o = test::gaussian(static_cast<int64_t>(p.q.size()), 9);
  Vector lse(x.lse.size(), 2000.0);
  const Vector before = o;
  attention_forward<double>(p.shape, p.scale, p.keys, p.q.data(), p.k.data(), p.v.data(), o.data(),
                            lse.data());
  BOOST_CHECK(test::same_bits(o, before));
  BOOST_CHECK(std::all_of(lse.begin(), lse.end(), [](double z) { return z == 2000; }));
}

// A row with z = -inf has P = 0 even where it sees keys, and its O is not looked at.
BOOST_AUTO_TEST_CASE(empty_state_in_the_backward) {
  const Problem p({2, 1, 4}, 6, 9, Mask::all);
  Result x = run(p), y = x;
  const int64_t row = 3, head = 1, at = (row * 2 + head) * 4;
  Vector without = p.d_o;
  std::fill_n(without.begin() + at, 4, 0.0);
  x.lse[row * 2 + head] = -inf;
  std::fill_n(x.o.begin() + at, 4, NAN);
  const auto backward = [&](Result& r, const Vector& d_o) {
    for (Vector* g : {&r.dq, &r.dk, &r.dv}) {
      std::fill(g->begin(), g->end(), 0.0);
    }
    attention_backward<double>(p.shape, p.scale, p.keys, p.q.data(), p.k.data(), p.v.data(),
                               r.o.data(), r.lse.data(), d_o.data(), r.dq.data(), r.dk.data(),
                               r.dv.data());
  };
  backward(x, p.d_o);
  backward(y, without);  // z as it was, but no cotangent on that row
  BOOST_CHECK(x.dq == y.dq && x.dk == y.dk && x.dv == y.dv);
}

// Rows without keys keep their state, bit for bit; gradients are added to what is there.
BOOST_AUTO_TEST_CASE(accumulates) {
  Problem p({2, 1, 3}, 8, 10, Mask::causal);
  const Result clean = run(p);
  Result x = clean;
  const Vector o0 = test::gaussian(static_cast<int64_t>(x.o.size()), 8);
  x.o = o0;
  std::fill(x.lse.begin(), x.lse.end(), -inf);
  x.lse[0] = 0.25;
  attention_forward<double>(p.shape, p.scale, p.keys, p.q.data(), p.k.data(), p.v.data(),
                            x.o.data(), x.lse.data());
  BOOST_REQUIRE(p.keys[0].empty() && !p.keys[1].empty());
  for (int i = 0; i < 6; ++i) {
    BOOST_CHECK_EQUAL(x.o[i], o0[i]);
  }
  BOOST_CHECK_EQUAL(x.lse[0], 0.25);
  // Garbage under z = -inf is replaced.
  for (size_t i = 6; i < x.o.size(); ++i) {
    BOOST_CHECK_EQUAL(x.o[i], clean.o[i]);
  }
  for (int pass = 0; pass < 2; ++pass) {
    x = clean;
    attention_backward<double>(p.shape, p.scale, p.keys, p.q.data(), p.k.data(), p.v.data(),
                               x.o.data(), x.lse.data(), p.d_o.data(), x.dq.data(), x.dk.data(),
                               x.dv.data());
  }
  for (size_t i = 0; i < x.dk.size(); ++i) {
    BOOST_CHECK_CLOSE_FRACTION(x.dk[i], 2 * clean.dk[i], 1e-14);
    BOOST_CHECK_CLOSE_FRACTION(x.dv[i], 2 * clean.dv[i], 1e-14);
  }
}

// The forward of a row does not depend on the rows beside it: any subset of rows gives the same
// bits.
BOOST_AUTO_TEST_CASE(rows_are_independent) {
  const Problem all({2, 2, 20}, 60, 300, Mask::irregular);
  const Result x = run(all);
  const int64_t size = 2 * 20;
  for (const Interval rows : {Interval{0, 1}, Interval{7, 8}, Interval{5, 38}, Interval{59, 60}}) {
    Problem part = all;
    part.keys.assign(all.keys.begin() + rows.begin, all.keys.begin() + rows.end);
    part.q.assign(all.q.begin() + rows.begin * size, all.q.begin() + rows.end * size);
    part.d_o.assign(all.d_o.begin() + rows.begin * size, all.d_o.begin() + rows.end * size);
    const Result y = run(part);
    BOOST_CHECK(std::equal(y.o.begin(), y.o.end(), x.o.begin() + rows.begin * size));
    BOOST_CHECK(std::equal(y.lse.begin(), y.lse.end(), x.lse.begin() + rows.begin * 2));
    BOOST_CHECK(std::equal(y.dq.begin(), y.dq.end(), x.dq.begin() + rows.begin * size));
  }
}

// NaN and infinities reach what sees or is seen by them; all else keeps its bits.
BOOST_AUTO_TEST_CASE(non_finite_values_stay_where_they_are_seen) {
  const Problem clean({2, 1, 6}, 40, 44, Mask::window);
  const Result x = run(clean);
  for (const double bad : {static_cast<double>(NAN), inf}) {
    for (const int tensor : {0, 1, 2, 3}) {
      Problem p = clean;
      const int64_t at = 17;  // a key for k and v, a row for q and d_o
      Vector& t = tensor == 0 ? p.k : tensor == 1 ? p.v : tensor == 2 ? p.q : p.d_o;
      t[(tensor < 2 ? at : at * 2) * 6 + 2] = bad;
      const Result y = run(p);
      const auto touched_row = [&](int64_t r) {
        return tensor < 2 ? p.keys[r].contains(at) : r == at;
      };
      const auto touched_key = [&](int64_t key) {
        for (int64_t r = 0; r < p.rows(); ++r) {
          if (touched_row(r) && p.keys[r].contains(key)) {
            return true;
          }
        }
        return false;
      };
      int64_t changed = 0;
      for (int64_t r = 0; r < p.rows(); ++r) {
        for (int64_t i = r * 12; i < (r + 1) * 12; ++i) {
          if (!touched_row(r)) {
            BOOST_CHECK_EQUAL(y.o[i], x.o[i]);
            BOOST_CHECK_EQUAL(y.dq[i], x.dq[i]);
          } else if (!std::isfinite(y.o[i]) || !std::isfinite(y.dq[i])) {
            ++changed;
          }
        }
      }
      BOOST_CHECK_GT(changed, 0);
      for (int64_t key = 0; key < p.n; ++key) {
        if (!touched_key(key)) {
          for (int64_t i = key * 6; i < (key + 1) * 6; ++i) {
            BOOST_CHECK_EQUAL(y.dk[i], x.dk[i]);
            BOOST_CHECK_EQUAL(y.dv[i], x.dv[i]);
          }
        }
      }
    }
  }
}

// dO 2^k scales all gradients, V 2^k scales O; (2 Q, scale / 2) leaves O, z, dK, dV. Bit for bit.
BOOST_AUTO_TEST_CASE(exact_relations) {
  const Problem p({3, 1, 10}, 33, 45, Mask::irregular);
  const Result x = run(p);
  const auto times = [](Vector a, double c) {
    for (double& y : a) {
      y *= c;
    }
    return a;
  };
  Problem scaled = p;
  scaled.d_o = times(p.d_o, 0x1p9);
  Result y = run(scaled);
  BOOST_CHECK(test::same_bits(y.dq, times(x.dq, 0x1p9)));
  BOOST_CHECK(test::same_bits(y.dk, times(x.dk, 0x1p9)));
  BOOST_CHECK(test::same_bits(y.dv, times(x.dv, 0x1p9)));
  scaled = p;
  scaled.v = times(p.v, 0x1p-5);
  y = run(scaled);
  BOOST_CHECK(test::same_bits(y.o, times(x.o, 0x1p-5)));
  BOOST_CHECK(test::same_bits(y.lse, x.lse) && test::same_bits(y.dv, x.dv));
  scaled = p;
  scaled.q = times(p.q, 2);
  scaled.scale = p.scale / 2;
  y = run(scaled);
  BOOST_CHECK(test::same_bits(y.o, x.o) && test::same_bits(y.lse, x.lse));
  BOOST_CHECK(test::same_bits(y.dk, x.dk) && test::same_bits(y.dv, x.dv));
  BOOST_CHECK(test::same_bits(y.dq, times(x.dq, 0.5)));
}

#ifdef _OPENMP
// Bits do not depend on the number of threads, with more heads than threads and with fewer.
BOOST_AUTO_TEST_CASE(threads_do_not_matter) {
  const int before = omp_get_max_threads();
  for (const int64_t kv_heads : {1, 4}) {
    const Problem p({4, kv_heads, 12}, 150, 250, Mask::irregular);
    for (const bool reverse : {false, true}) {
      const AttentionOptions options{.reverse_tiles = reverse, .query_tile = 48, .key_tile = 24};
      omp_set_num_threads(1);
      const Result x = run(p, {}, options);
      for (const int threads : {2, 3, 8}) {
        omp_set_num_threads(threads);
        const Result y = run(p, {}, options);
        BOOST_CHECK(test::same_bits(x.o, y.o) && test::same_bits(x.lse, y.lse));
        BOOST_CHECK(test::same_bits(x.dq, y.dq));
        BOOST_CHECK(test::same_bits(x.dk, y.dk) && test::same_bits(x.dv, y.dv));
      }
    }
  }
  omp_set_num_threads(before);
}
#endif

BOOST_AUTO_TEST_CASE(bad_input) {
  const Problem p({2, 1, 4}, 3, 5, Mask::all);
  const auto forward = [&](const AttentionShape& shape, std::vector<Interval> keys, double z) {
    Vector o(p.q.size()), lse(6, z);
    attention_forward<double>(shape, p.scale, keys, p.q.data(), p.k.data(), p.v.data(), o.data(),
                              lse.data());
    return o;
  };
  BOOST_CHECK_NO_THROW(forward({2, 1, 4}, p.keys, -inf));
  BOOST_CHECK_THROW(forward({3, 2, 4}, p.keys, -inf), InputError);
  BOOST_CHECK_THROW(forward({2, 1, 0}, p.keys, -inf), InputError);
  BOOST_CHECK_THROW(forward({2, 0, 4}, p.keys, -inf), InputError);
  BOOST_CHECK_THROW(forward({2, 1, 4}, {{-1, 2}}, -inf), InputError);
  BOOST_CHECK_THROW(forward({2, 1, 4}, p.keys, inf), InputError);
  for (const double x : forward({2, 1, 4}, p.keys, NAN)) {
    BOOST_CHECK(std::isnan(x));
  }
  BOOST_CHECK_NO_THROW(forward({2, 1, 4}, {}, -inf));
}

BOOST_AUTO_TEST_SUITE_END()
