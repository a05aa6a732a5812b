// The merge on a device.

#include <boost/test/unit_test.hpp>
#include <cstdio>

#include "optimized/cuda/device_test_plugins.h"
#include "reference/base/philox.h"
#include "reference/math/merge.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(device_merge)

namespace {

struct State {
  std::vector<double> o, z;  // (rows, heads, channels), (rows, heads)
};

Dtype real_of(const Plugin& plugin) {
  return &plugin == test_plugins().low.get() ? Dtype::fp32 : Dtype::f64;
}

State merged(const Plugin& plugin, const State& a, const State& b, int64_t rows, int64_t heads,
             int64_t channels, Placement placement, bool in_place) {
  const Dtype real = real_of(plugin);
  const auto upload = [&](const std::vector<double>& x, int64_t width) {
    auto t = std::make_unique<DeviceTensor>(plugin, real, rows, heads, width, placement);
    t->write(x);
    return t;
  };
  const auto o_a = upload(a.o, channels), o_b = upload(b.o, channels);
  const auto z_a = upload(a.z, 0), z_b = upload(b.z, 0);
  DeviceTensor o(plugin, real, rows, heads, channels, placement);
  DeviceTensor z(plugin, real, rows, heads, 0, placement);
  bdlm_merge_args args{};
  args.size = sizeof(args);
  args.o_a = o_a->view();
  args.lse_a = z_a->view();
  args.o_b = o_b->view();
  args.lse_b = z_b->view();
  args.o = in_place ? o_a->view() : o.view();
  args.lse = in_place ? z_a->view() : z.view();
  plugin.check(plugin->merge(plugin.context(), &args));
  plugin.check(plugin->synchronize(plugin.context(), nullptr));
  return in_place ? State{o_a->read(), z_a->read()} : State{o.read(), z.read()};
}

/// A state of one number.
State one(double o, double z) {
  return {{o}, {z}};
}
State merged_one(const Plugin& plugin, const State& a, const State& b) {
  return merged(plugin, a, b, 1, 1, 1, Placement::contiguous, false);
}

bool same_bits(const std::vector<double>& x, const std::vector<double>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0;
}

/// Gaussian outputs; log-sum-exps of deviation `spread`, every fifth -inf with NaN outputs.
State random_state(Dtype real, uint64_t seed, int64_t rows, int64_t channels, double spread) {
  const Philox random(seed);
  State s;
  for (int64_t row = 0; row < rows; ++row) {
    const bool empty = random.below(row, 5) == 0;
    s.z.push_back(empty ? -INFINITY : round_to(spread * random.gaussian(row), real));
    for (int64_t c = 0; c < channels; ++c) {
      s.o.push_back(empty ? NAN : round_to(random.gaussian(1000000 + row * channels + c), real));
    }
  }
  return s;
}

template <class Work>
void on_both(const Work& work) {
  for (const Plugin* plugin : {test_plugins().oracle.get(), test_plugins().low.get()}) {
    BOOST_TEST_CONTEXT((*plugin)->name) {
      work(*plugin, unit_roundoff(real_of(*plugin)));
    }
  }
}

BOOST_AUTO_TEST_CASE(identity_and_special_values) {
  on_both([](const Plugin& plugin, double u) {
    const double inf = INFINITY;
    const State empty = merged_one(plugin, one(NAN, -inf), one(NAN, -inf));
    BOOST_TEST(empty.o[0] == 0);
    BOOST_TEST(empty.z[0] == -inf);
    for (const double o : {1.2345678, -0.0, 1e-38, 3e38}) {
      const double x = round_to(o, real_of(plugin));
      for (const double z : {-300.0, 0.0, 1e4}) {
        const State left = merged_one(plugin, one(x, z), one(NAN, -inf));
        const State right = merged_one(plugin, one(NAN, -inf), one(x, z));
        BOOST_TEST((same_bits(left.o, {x}) && same_bits(left.z, {z})));
        BOOST_TEST((same_bits(right.o, {x}) && same_bits(right.z, {z})));
      }
    }
    for (const State& other : {one(1, 0), one(1, -inf), one(1, NAN), one(1, inf)}) {
      for (const double z : {static_cast<double>(NAN), inf}) {
        for (const State& got :
             {merged_one(plugin, one(1, z), other), merged_one(plugin, other, one(1, z))}) {
          BOOST_TEST(std::isnan(got.o[0]));
          BOOST_TEST(std::isnan(got.z[0]));
        }
      }
    }
    const State far = merged_one(plugin, one(1e8, -100), one(1, 100));
    BOOST_TEST(far.o[0] == 1);
    BOOST_TEST(far.z[0] == 100);
    for (const double z : {1e4, -1e30}) {
      const State got = merged_one(plugin, one(1, round_to(z, real_of(plugin))),
                                   one(3, round_to(z, real_of(plugin))));
      BOOST_TEST(std::abs(got.o[0] - 2) <= 4 * u);
    }
    const double largest = 3.4e38;
    const State top = merged_one(plugin, one(round_to(largest, real_of(plugin)), 1),
                                 one(round_to(largest, real_of(plugin)), 1));
    BOOST_TEST(std::isfinite(top.o[0]));
    const State two = merged_one(plugin, one(1, -60000), one(0, -60001));
    BOOST_TEST(std::abs(two.o[0] - 1 / (1 + std::exp(-1.0))) <= 8 * u);
  });
}

// Small shares add up: 4096 of 2^-24 each.
BOOST_AUTO_TEST_CASE(small_shares_are_not_lost) {
  on_both([](const Plugin& plugin, double) {
    State state = one(0, 0);
    const double z = round_to(-24 * std::log(2.0), real_of(plugin));
    for (int i = 0; i < 4096; ++i) {
      state = merged_one(plugin, state, one(1, z));
    }
    BOOST_TEST(std::abs(state.o[0] - 2.44e-4) < 1e-6);
  });
}

// Against the reference in double; both orders, in place or not, bit for bit the same. Rows take a
// warp each; the local part is far above, or far below, or near.
BOOST_AUTO_TEST_CASE(rows_agree_with_the_reference_in_any_order) {
  on_both([](const Plugin& plugin, double u) {
    constexpr int64_t rows = 301, heads = 3, channels = 130;
    for (const double spread : {1.0, 80.0}) {
      const State a = random_state(real_of(plugin), 1, rows * heads, channels, spread);
      const State b = random_state(real_of(plugin), 2, rows * heads, channels, spread);
      const State got = merged(plugin, a, b, rows, heads, channels, Placement::contiguous, false);
      for (const Placement placement : {Placement::odd, Placement::head_major}) {
        for (int repeat = 0; repeat < 5; ++repeat) {
          const State swapped = merged(plugin, b, a, rows, heads, channels, placement, true);
          BOOST_TEST((same_bits(got.o, swapped.o) && same_bits(got.z, swapped.z)));
        }
      }
      State want = a;
      merge_rows<double>(rows * heads, channels, want.o.data(), want.z.data(), b.o.data(),
                         b.z.data());
      double o_error = 0;
      double z_error = 0;
      for (int64_t row = 0; row < rows * heads; ++row) {
        z_error = std::max(z_error, want.z[row] == got.z[row] ? 0
                                                              : std::abs(want.z[row] - got.z[row]) /
                                                                    (1 + std::abs(want.z[row])));
        for (int64_t c = 0; c < channels; ++c) {
          const int64_t i = row * channels + c;
          // Differences of z carry errors of u (|z_a| + |z_b|) into the weights.
          o_error = std::max(o_error, want.o[i] == got.o[i]
                                          ? 0
                                          : std::abs(want.o[i] - got.o[i]) / (8 + 8 * spread));
        }
      }
      BOOST_TEST(o_error <= 4 * u);
      BOOST_TEST(z_error <= 4 * u);
    }
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
