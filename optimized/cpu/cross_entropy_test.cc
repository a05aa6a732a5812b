// Cross-entropy against its definition in double, within the rounding errors of float.

#include "optimized/cpu/cross_entropy.h"

#include <cmath>

#include "conformance/judge/limits.h"
#include "conformance/judge/rounding.h"
#include "optimized/cpu/backend.h"
#include "optimized/cpu/plugin_driver_test.h"
#include "reference/base/parallel_for.h"
#include "reference/base/philox.h"
#include "reference/math/cross_entropy.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(cross_entropy_of_a_head)

namespace {

struct Case {
  int64_t rows = 10, hidden = 8, vocab = 17;
  double softcap = 0;
  int64_t excluded = -1;
  double upstream = 1;
  /// Of hidden values; large ones give logits at which softmax takes one class.
  double spread = 1;
  bdlm_dtype storage = test::fp32;
};

/// Tensors of a call. Rows 0 and 9, and every fifth, are ignored.
struct Call {
  explicit Call(const Case& c)
      : spec(c),
        hidden(c.storage, {c.rows, c.hidden}, 3),
        head(c.storage, {c.vocab, c.hidden}, 1),
        weights(test::fp32, {c.rows}),
        row_loss(test::fp32, {c.rows}),
        d_hidden(c.storage, {c.rows, c.hidden}, 2),
        d_head(test::fp32, {c.vocab, c.hidden}, 5) {
    const Philox random(31);
    for (int64_t i = 0; i < hidden.count(); ++i) {
      hidden.set(i, c.spread * random.gaussian(i));
    }
    const double scale = 1 / std::sqrt(static_cast<double>(c.hidden));
    for (int64_t i = 0; i < head.count(); ++i) {
      head.set(i, scale * Philox(31, 1).gaussian(i));
    }
    for (int64_t r = 0; r < c.rows; ++r) {
      const bool ignored = r == 0 || r == 9 || r % 5 == 3;
      const int64_t label = Philox(31, 2).below(r, c.vocab);
      labels.push_back(ignored ? -1 - r : label == c.excluded ? (label + 1) % c.vocab : label);
      weights.set(r, 0.05 + Philox(31, 3).uniform(r));
    }
    label_shape = c.rows;
    label_tensor = {labels.data(), {1, 0}, 1, {0, 64, 1}, &label_shape, nullptr, 0};
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  bdlm_cross_entropy_args args() {
    bdlm_cross_entropy_args a{};
    a.size = sizeof a;
    a.hidden = hidden.get();
    a.head = head.get();
    a.labels = &label_tensor;
    a.row_weights = weights.get();
    a.softcap = spec.softcap;
    a.excluded = spec.excluded;
    a.upstream = spec.upstream;
    a.row_loss = row_loss.get();
    a.d_hidden = d_hidden.get();
    a.d_head = d_head.get();
    return a;
  }

  std::vector<std::vector<uint32_t>> bits() const {
    return {row_loss.bits(), d_hidden.bits(), d_head.bits()};
  }

  Case spec;
  test::HostTensor hidden, head, weights, row_loss, d_hidden, d_head;
  std::vector<int64_t> labels;
  int64_t label_shape = 0;
  bdlm_tensor label_tensor{};
};

std::vector<double> values(const test::HostTensor& tensor) {
  std::vector<double> out;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    out.push_back(tensor.at(i));
  }
  return out;
}

/// How far the results may be from those in double. With u of fp32, and A_ic = sum |h_i w_c|:
///
///   a logit       e = u ((E + 4) A + 4 |x|)
///   its gradient  |factor| (p + [label]) (2 e_max + 16 u + e_max 2 / softcap)
///
/// and sums of n terms add n u of the sum of absolute terms; a result in bf16 its own rounding. A
/// probability below the normal floats may become 0.
struct Bounds {
  std::vector<double> row_loss, d_hidden, d_head;
};

Bounds bounds(const Case& c, const std::vector<double>& h, const std::vector<double>& w,
              const std::vector<int64_t>& labels, const std::vector<double>& weights) {
  const double u = unit_roundoff(Dtype::fp32);
  Bounds b{std::vector<double>(c.rows, 0), std::vector<double>(c.rows * c.hidden, 0),
           std::vector<double>(c.vocab * c.hidden, 0)};
  for (int64_t i = 0; i < c.rows; ++i) {
    if (labels[i] < 0) {
      continue;
    }
    std::vector<double> x(c.vocab, 0);
    double e = 0;
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t v = 0; v < c.vocab; ++v) {
      double sum = 0;
      for (int64_t k = 0; k < c.hidden; ++k) {
        x[v] += h[i * c.hidden + k] * w[v * c.hidden + k];
        sum += std::abs(h[i * c.hidden + k] * w[v * c.hidden + k]);
      }
      x[v] = c.softcap > 0 ? c.softcap * std::tanh(x[v] / c.softcap) : x[v];
      e = std::max(e, u * ((static_cast<double>(c.hidden) + 4) * sum + 4 * std::abs(x[v])));
      if (v != c.excluded) {
        largest = std::max(largest, x[v]);
      }
    }
    double total = 0;
    for (int64_t v = 0; v < c.vocab; ++v) {
      total += v == c.excluded ? 0 : std::exp(x[v] - largest);
    }
    const double loss = std::log(total) + largest - x[labels[i]];
    b.row_loss[i] = weights[i] * (2 * e + u * (16 + 2 * loss));
    const double relative = 2 * e + 16 * u + (c.softcap > 0 ? 2 * e / c.softcap : 0);
    const double factor = std::abs(c.upstream * weights[i]);
    for (int64_t v = 0; v < c.vocab; ++v) {
      const double p = v == c.excluded ? 0 : std::exp(x[v] - largest) / total;
      const double size = factor * (p + (v == labels[i] ? 1 : 0));
      const double lost = factor * limits::flush_to_zero;
      for (int64_t k = 0; k < c.hidden; ++k) {
        b.d_hidden[i * c.hidden + k] +=
            (size * (relative + u * static_cast<double>(c.vocab)) + lost) *
            std::abs(w[v * c.hidden + k]);
        b.d_head[v * c.hidden + k] += (size * (relative + u * static_cast<double>(c.rows)) + lost) *
                                      std::abs(h[i * c.hidden + k]);
      }
    }
  }
  return b;
}

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The largest |got - expected| / bound; infinite where a bound of 0 is not kept.
double worst(const std::vector<double>& got, const std::vector<double>& expected,
             const std::vector<double>& bound, double rounding) {
  double most = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - expected[i]);
    const double limit = bound[i] + rounding * std::abs(expected[i]);
    const double ratio = error == 0 ? 0 : error / limit;
    if (std::isnan(ratio)) {
      return infinity;
    }
    most = std::max(most, ratio);
  }
  return most;
}

std::vector<Case> cases() {
  std::vector<Case> out;
  out.push_back({});
  out.push_back({.rows = 130, .hidden = 33, .vocab = 129, .softcap = 3, .excluded = 128});
  out.push_back({.rows = 300, .hidden = 70, .vocab = 64, .excluded = 0, .upstream = -0.37});
  out.push_back({.rows = 11, .hidden = 260, .vocab = 2300, .softcap = 30, .excluded = 64});
  out.push_back({.rows = 20, .hidden = 16, .vocab = 100, .spread = 1e3});
  out.push_back({.rows = 20, .hidden = 16, .vocab = 100, .softcap = 5, .spread = 1e3});
  out.push_back(
      {.rows = 20, .hidden = 16, .vocab = 65, .softcap = 5, .excluded = 64, .spread = 1e-3});
  out.push_back({.rows = 7, .hidden = 1, .vocab = 2});
  return out;
}

BOOST_AUTO_TEST_CASE(agrees_with_double) {
  for (Case c : cases()) {
    for (const bdlm_backend* backend : {bdlm_cpu_backend(), bdlm_cpu_bf16_backend()}) {
      const test::Driver driver(backend);
      const bool half = backend == bdlm_cpu_bf16_backend();
      c.storage = half ? test::bf16 : test::fp32;
      Call call(c);
      const bdlm_cross_entropy_args args = call.args();
      driver.expect_ok(driver->cross_entropy(driver.context(), &args));
      const std::vector<double> h = values(call.hidden);
      const std::vector<double> w = values(call.head);
      const std::vector<double> weights = values(call.weights);
      std::vector<int64_t> labels = call.labels;
      for (int64_t& label : labels) {
        label = std::max<int64_t>(label, -1);
      }
      const CrossEntropyShape shape{c.rows, c.hidden, c.vocab};
      CrossEntropyOptions options;
      options.softcap = c.softcap;
      options.excluded = c.excluded;
      std::vector<double> d_hidden(h.size(), 0);
      std::vector<double> d_head(w.size(), 0);
      cross_entropy_backward<double>(shape, h.data(), w.data(), labels, weights, c.upstream,
                                     d_hidden.data(), d_head.data(), options);
      std::vector<double> row_loss;
      for (int64_t i = 0; i < c.rows; ++i) {
        const CrossEntropyShape one{1, c.hidden, c.vocab};
        row_loss.push_back(cross_entropy_forward<double>(one, h.data() + i * c.hidden, w.data(),
                                                         std::span(&labels[i], 1),
                                                         std::span(&weights[i], 1), options));
      }
      const Bounds b = bounds(c, h, w, labels, weights);
      const double rounding = half ? unit_roundoff(Dtype::bf16) : 0;
      const std::string what = join(backend->name, " rows ", c.rows, " hidden ", c.hidden,
                                    " vocab ", c.vocab, " spread ", c.spread);
      BOOST_TEST(worst(values(call.row_loss), row_loss, b.row_loss, 0) <= 1, what);
      BOOST_TEST(worst(values(call.d_hidden), d_hidden, b.d_hidden, rounding) <= 1, what);
      BOOST_TEST(worst(values(call.d_head), d_head, b.d_head, 0) <= 1, what);
      BOOST_TEST((call.row_loss.gaps_untouched() && call.d_hidden.gaps_untouched() &&
                  call.d_head.gaps_untouched()));
    }
  }
}

BOOST_AUTO_TEST_CASE(threads_change_no_bits) {
  const test::Driver driver(bdlm_cpu_backend());
  const int before = max_threads();
  for (const Case& c : cases()) {
    std::vector<std::vector<uint32_t>> one;
    for (const int threads : {1, 2, 3, 5}) {
      set_max_threads(threads);
      Call call(c);
      const bdlm_cross_entropy_args args = call.args();
      driver.expect_ok(driver->cross_entropy(driver.context(), &args));
      one = threads == 1 ? call.bits() : one;
      BOOST_TEST((call.bits() == one), threads << " threads");
    }
  }
  set_max_threads(before);
}

// Ignored rows, and the weights of the excluded class, may hold anything.
BOOST_AUTO_TEST_CASE(what_does_not_count_is_not_read) {
  const test::Driver driver(bdlm_cpu_backend());
  const Case c{.rows = 130, .hidden = 33, .vocab = 129, .softcap = 3, .excluded = 100};
  Call right(c);
  Call call(c);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t k = 0; k < c.hidden && call.labels[r] < 0; ++k) {
      call.hidden.set(r * c.hidden + k, nan);
      call.weights.set(r, nan);
    }
  }
  for (int64_t k = 0; k < c.hidden; ++k) {
    call.head.set(c.excluded * c.hidden + k, k % 2 == 0 ? nan : 3e38);
  }
  for (Call* each : {&right, &call}) {
    const bdlm_cross_entropy_args args = each->args();
    driver.expect_ok(driver->cross_entropy(driver.context(), &args));
  }
  BOOST_TEST((call.bits() == right.bits()));
  for (int64_t k = 0; k < c.hidden; ++k) {
    BOOST_TEST(right.d_head.at(c.excluded * c.hidden + k) == 0);
    BOOST_TEST(right.d_hidden.at(9 * c.hidden + k) == 0);
  }
  BOOST_TEST(right.row_loss.at(9) == 0);
}

BOOST_AUTO_TEST_CASE(all_rows_ignored) {
  const test::Driver driver(bdlm_cpu_backend());
  Call call(Case{});
  std::fill(call.labels.begin(), call.labels.end(), -100);
  const bdlm_cross_entropy_args args = call.args();
  driver.expect_ok(driver->cross_entropy(driver.context(), &args));
  for (const test::HostTensor* tensor : {&call.row_loss, &call.d_hidden, &call.d_head}) {
    for (const double x : values(*tensor)) {
      BOOST_TEST(x == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_refused_and_named) {
  const test::Driver driver(bdlm_cpu_backend());
  Call call(Case{});
  const auto refused = [&](const char* part, const auto& edit) {
    bdlm_cross_entropy_args args = call.args();
    edit(args);
    BOOST_TEST(driver->cross_entropy(driver.context(), &args) == BDLM_INVALID, part);
    BOOST_TEST(driver.error().find(part) != std::string::npos, part << ": " << driver.error());
    BOOST_TEST(std::isnan(call.d_head.at(0)), part);
  };
  refused("softcap is -1", [](auto& a) { a.softcap = -1; });
  refused("excluded class is 17", [](auto& a) { a.excluded = 17; });
  refused("labels has dtype", [](auto& a) { a.labels = a.row_weights; });
  refused("d_head is missing", [](auto& a) { a.d_head = nullptr; });
  call.labels[4] = 17;
  refused("label of row 4 is 17", [](auto&) {});
  call.labels[4] = 5;
  refused("left out of the softmax", [](auto& a) { a.excluded = 5; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
