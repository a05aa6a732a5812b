// What kernels do beside computing: the same bits every time, streams, NaN of others, wide offsets,
// errors.

#include <boost/test/unit_test.hpp>

#include "conformance/judge/test_cases.h"
#include "conformance/suites/double_bound.h"
#include "optimized/cuda/device_attention_test.h"
#include "optimized/cuda/device_test_plugins.h"
#include "reference/base/special_values.h"
#include "reference/math/attention.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(device_hygiene)

namespace {

bool same(const AttentionOutputs& a, const AttentionOutputs& b) {
  const auto equal = [](const ByStream<double>& x, const ByStream<double>& y) {
    for (int s = 0; s < 2; ++s) {
      if (x[s].size() != y[s].size() ||
          std::memcmp(x[s].data(), y[s].data(), x[s].size() * sizeof(double)) != 0) {
        return false;
      }
    }
    return true;
  };
  return equal(a.o, b.o) && equal(a.lse, b.lse) && equal(a.dq, b.dq) && equal(a.dk, b.dk) &&
         equal(a.dv, b.dv);
}

/// Runs `work` on both plug-ins.
template <class Work>
void on_both(const Work& work) {
  for (const Plugin* plugin : {test_plugins().oracle.get(), test_plugins().low.get()}) {
    BOOST_TEST_CONTEXT((*plugin)->name) {
      work(*plugin);
    }
  }
}

// Every run writes poisoned outputs; a stream of its own is busy every other time.
BOOST_AUTO_TEST_CASE(thirty_runs_give_the_same_bits) {
  on_both([](const Plugin& plugin) {
    const Contract contract = contract_of(plugin);
    const Decomposition d = whole(Sequence::uniform(700, 16), {CleanRule::block_causal, 0});
    const AttentionProblem<double> p = rounded_data({8, 2, 128}, d, DataKind::gauss, 11, contract);
    void* stream = nullptr;
    plugin.check(plugin->create_stream(plugin.context(), &stream));
    const AttentionOutputs first = DeviceAttention(plugin, contract, p, d, {}).compute();
    int different = 0;
    for (int run = 1; run < 30; ++run) {
      void* own = nullptr;
      plugin.check(plugin->create_stream(plugin.context(), &own));
      if (run % 2 == 1) {
        plugin.check(plugin->delay(plugin.context(), stream, 3000));
      }
      DeviceRun how;
      how.stream = own;
      different += same(first, DeviceAttention(plugin, contract, p, d, how).compute()) ? 0 : 1;
      plugin.check(plugin->synchronize(plugin.context(), stream));
      plugin->destroy_stream(plugin.context(), own);
    }
    BOOST_TEST(different == 0);
    plugin->destroy_stream(plugin.context(), stream);
  });
}

// More masks in turn than a context keeps the tables of, each with the bits that it had alone.
BOOST_AUTO_TEST_CASE(many_masks_in_turn) {
  on_both([](const Plugin& plugin) {
    const Contract contract = contract_of(plugin);
    const Sequence sequence = Sequence::uniform(150, 8);
    std::vector<AttentionOutputs> first;
    for (int round = 0; round < 3; ++round) {
      for (int64_t window = 1; window <= 20; ++window) {
        const Decomposition d = whole(sequence, {CleanRule::token_causal, 5 * window});
        const AttentionProblem<double> p =
            rounded_data({2, 1, 128}, d, DataKind::gauss, 17, contract);
        const AttentionOutputs got = DeviceAttention(plugin, contract, p, d, {}).compute();
        if (round == 0) {
          first.push_back(got);
        } else {
          BOOST_TEST(same(first[window - 1], got), "window " << 5 * window);
        }
      }
    }
  });
}

// A merge into the state is queued behind a delay; the attention call that starts from that state
// has to wait for it.
BOOST_AUTO_TEST_CASE(work_waits_for_its_stream) {
  on_both([](const Plugin& plugin) {
    const Contract contract = contract_of(plugin);
    const int64_t rows = 100;
    const Philox random(3);
    std::vector<double> o(rows * 64), z(rows), empty(rows, -infinity);
    for (size_t i = 0; i < o.size(); ++i) {
      o[i] = round_to(random.gaussian(i), contract.partial_o);
    }
    for (size_t i = 0; i < z.size(); ++i) {
      z[i] = round_to(random.gaussian(1000000 + i), contract.lse);
    }
    const auto tensor = [&](Dtype dtype, int64_t channels) {
      return std::make_unique<DeviceTensor>(plugin, dtype, rows, 1, channels);
    };
    auto o_a = tensor(contract.partial_o, 64), o_b = tensor(contract.partial_o, 64);
    auto lse_a = tensor(contract.lse, 0), lse_b = tensor(contract.lse, 0);
    auto state = tensor(contract.partial_o, 64), lse_state = tensor(contract.lse, 0);
    auto out = tensor(contract.partial_o, 64), lse_out = tensor(contract.lse, 0);
    auto q = tensor(contract.input, 64);
    o_a->write(o);
    lse_a->write(z);
    lse_b->write(empty);
    q->write(std::vector<double>(o.size(), 1));
    void* stream = nullptr;
    plugin.check(plugin->create_stream(plugin.context(), &stream));

    bdlm_merge_args merge{};
    merge.size = sizeof(merge);
    merge.o_a = o_a->view();
    merge.lse_a = lse_a->view();
    merge.o_b = o_b->view();
    merge.lse_b = lse_b->view();
    merge.o = state->view();
    merge.lse = lse_state->view();
    merge.stream = stream;
    bdlm_attention_args args{};
    args.size = sizeof(args);
    args.scale = 1;
    args.q = q->view();
    args.o_state = state->view();
    args.lse_state = lse_state->view();
    args.o = out->view();
    args.lse = lse_out->view();
    args.stream = stream;
    uint64_t bytes = 0;
    plugin.check(plugin->attention_workspace(plugin.context(), &args, &bytes));
    const DeviceMemory workspace(plugin, bytes);
    args.workspace = workspace.get();
    args.workspace_bytes = bytes;
    plugin.check(plugin->delay(plugin.context(), stream, 50000));
    plugin.check(plugin->merge(plugin.context(), &merge));
    plugin.check(plugin->attention(plugin.context(), &args));
    plugin.check(plugin->synchronize(plugin.context(), stream));
    BOOST_TEST((out->read() == o));
    BOOST_TEST((lse_out->read() == z));
    plugin->destroy_stream(plugin.context(), stream);
  });
}

// NaN in K and V of one key, in Q and dO of one row: what does not see them stays as it was.
BOOST_AUTO_TEST_CASE(nan_reaches_only_who_sees_it) {
  on_both([](const Plugin& plugin) {
    const Contract contract = contract_of(plugin);
    constexpr int clean = static_cast<int>(Stream::clean);
    constexpr int64_t bad = 77;
    const Decomposition d = whole(Sequence::uniform(150, 10), {CleanRule::token_causal, 0});
    AttentionProblem<double> p = rounded_data({2, 1, 64}, d, DataKind::gauss, 5, contract);
    const AttentionOutputs right = DeviceAttention(plugin, contract, p, d, {}).compute();
    const auto compare = [&](const std::vector<double>& got, const std::vector<double>& before,
                             int64_t width, int64_t first_nan, int64_t last_nan) {
      int wrong = 0;
      for (int64_t i = 0; i < static_cast<int64_t>(got.size()); ++i) {
        const int64_t row = i / width;
        const bool poisoned = first_nan <= row && row < last_nan;
        const double distance = std::abs(got[i] - before[i]);
        wrong += poisoned ? (std::isnan(got[i]) ? 0 : 1) : (distance < 0.05 ? 0 : 1);
      }
      BOOST_TEST(wrong == 0);
    };
    AttentionProblem<double> keys = p;
    std::fill_n(keys.k[clean].begin() + bad * 64, 64, NAN);
    std::fill_n(keys.v[clean].begin() + bad * 64, 64, NAN);
    const AttentionOutputs by_key = DeviceAttention(plugin, contract, keys, d, {}).compute();
    compare(by_key.o[clean], right.o[clean], int64_t{2} * 64, bad, 150);
    compare(by_key.dq[clean], right.dq[clean], int64_t{2} * 64, bad, 150);
    compare(by_key.o[1], right.o[1], int64_t{2} * 64, 80, 150);  // corrupted rows of later blocks
    AttentionProblem<double> rows = p;
    std::fill_n(rows.q[clean].begin() + bad * 128, 128, NAN);
    std::fill_n(rows.d_o[clean].begin() + bad * 128, 128, NAN);
    const AttentionOutputs by_row = DeviceAttention(plugin, contract, rows, d, {}).compute();
    compare(by_row.o[clean], right.o[clean], int64_t{2} * 64, bad, bad + 1);
    compare(by_row.dk[clean], right.dk[clean], 64, 0, bad + 1);
    compare(by_row.dv[clean], right.dv[clean], 64, 0, bad + 1);
    compare(by_row.dk[1], right.dk[1], 64, 150, 150);
  });
}

// Rows 2^30 elements apart: offsets of the third one do not fit 31 bits, nor its bytes 32.
BOOST_AUTO_TEST_CASE(offsets_beyond_32_bits) {
  const Plugin& plugin = *test_plugins().low;
  constexpr int64_t apart = int64_t{1} << 30;
  constexpr int64_t rows = 3, channels = 64;
  const DeviceMemory far(plugin, 2 * (2 * apart + 4096), false);
  const DeviceMemory far_o(plugin, 2 * (2 * apart + 4096), false);
  DeviceTensor q(plugin, Dtype::bf16, rows, 1, channels);
  DeviceTensor v(plugin, Dtype::bf16, rows, 1, channels);
  DeviceTensor o(plugin, Dtype::bf16, rows, 1, channels);
  DeviceTensor lse(plugin, Dtype::fp32, rows, 1, 0);
  const Philox random(9);
  std::vector<double> values(rows * channels);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = round_to(random.gaussian(i), Dtype::bf16);
  }
  q.write(values);
  v.write(values);
  const auto at = [&](const DeviceMemory& memory, int64_t row) {
    return static_cast<char*>(memory.get()) + 2 * row * apart;
  };
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<uint16_t> bits(channels);
    for (int64_t c = 0; c < channels; ++c) {
      const auto x = static_cast<float>(values[row * channels + c]);
      uint32_t word = 0;
      std::memcpy(&word, &x, 4);
      bits[c] = static_cast<uint16_t>(word >> 16);
    }
    plugin.check(plugin->copy_in(plugin.context(), at(far, row), bits.data(), 2 * channels));
  }
  int64_t shape[] = {rows, 1, channels};
  int64_t strides[] = {apart, channels, 1};
  bdlm_tensor k_far{far.get(), {2, 0}, 3, {4, 16, 1}, shape, strides, 0};
  bdlm_tensor o_far{far_o.get(), {2, 0}, 3, {4, 16, 1}, shape, strides, 0};
  const int64_t intervals[] = {0, 1, 0, 2, 0, 3};
  const auto attend = [&](const bdlm_tensor* k, const bdlm_tensor* values_of, bdlm_tensor* to) {
    bdlm_keys set{k, values_of, 0, nullptr, intervals, nullptr, nullptr};
    bdlm_attention_args args{};
    args.size = sizeof(args);
    args.scale = 0.125;
    args.q = k;
    args.key_set_count = 1;
    args.key_sets = &set;
    args.o = to;
    args.lse = lse.view();
    uint64_t bytes = 0;
    plugin.check(plugin->attention_workspace(plugin.context(), &args, &bytes));
    const DeviceMemory workspace(plugin, bytes);
    args.workspace = workspace.get();
    args.workspace_bytes = bytes;
    plugin.check(plugin->attention(plugin.context(), &args));
    plugin.check(plugin->synchronize(plugin.context(), nullptr));
  };
  attend(q.view(), v.view(), o.view());
  attend(&k_far, &k_far, &o_far);
  const std::vector<double> near = o.read();
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<uint16_t> bits(channels);
    plugin.check(plugin->copy_out(plugin.context(), bits.data(), at(far_o, row), 2 * channels));
    for (int64_t c = 0; c < channels; ++c) {
      const uint32_t word = uint32_t{bits[c]} << 16;
      float x = 0;
      std::memcpy(&x, &word, 4);
      BOOST_TEST(x == static_cast<float>(near[row * channels + c]));
    }
  }
}

// The reference's own attention, which the judge does not use, on a longer sequence.
BOOST_AUTO_TEST_CASE(double_agrees_with_the_reference) {
  const Plugin& plugin = *test_plugins().oracle;
  const Contract contract = contract_of(plugin);
  const Sequence sequence = Sequence::uniform(601, 24);
  const LayerRule rule{CleanRule::token_causal, 0};
  const Decomposition d = whole(sequence, rule);
  const AttentionProblem<double> p = rounded_data({3, 1, 128}, d, DataKind::gauss, 21, contract);
  const AttentionOutputs got = DeviceAttention(plugin, contract, p, d, {}).compute();
  const DoubleBound bound = double_bound(sequence, rule, p);
  AttentionOutputs want;
  for (int s = 0; s < 2; ++s) {
    want.o[s].assign(p.q[s].size(), 0);
    want.dq[s] = want.o[s];
    want.dk[s].assign(p.k[s].size(), 0);
    want.dv[s] = want.dk[s];
    want.lse[s].assign(p.q[s].size() / 128, -infinity);
  }
  const auto intervals = [&](int query, int key) {
    std::vector<Interval> keys;
    for (int64_t row = 0; row < p.length; ++row) {
      keys.push_back(
          visible(sequence, rule, static_cast<Stream>(query), row, static_cast<Stream>(key)));
    }
    return keys;
  };
  for (int s = 0; s < 2; ++s) {
    for (int key = 0; key < 2; ++key) {
      attention_forward<double>(p.shape, p.scale, intervals(s, key), p.q[s].data(), p.k[key].data(),
                                p.v[key].data(), want.o[s].data(), want.lse[s].data());
    }
    for (int key = 0; key < 2; ++key) {
      attention_backward<double>(p.shape, p.scale, intervals(s, key), p.q[s].data(),
                                 p.k[key].data(), p.v[key].data(), want.o[s].data(),
                                 want.lse[s].data(), p.d_o[s].data(), want.dq[s].data(),
                                 want.dk[key].data(), want.dv[key].data());
    }
  }
  const auto share = [](const ByStream<double>& x, const ByStream<double>& y,
                        const ByStream<double>& b) {
    double most = 0;
    for (int s = 0; s < 2; ++s) {
      for (size_t i = 0; i < x[s].size(); ++i) {
        const double off = std::abs(x[s][i] - y[s][i]);
        most = std::max(most, off == 0 ? 0 : std::isnan(off) ? INFINITY : off / b[s][i]);
      }
    }
    return most;
  };
  const double o = share(got.o, want.o, bound.o), lse = share(got.lse, want.lse, bound.lse);
  const double dq = share(got.dq, want.dq, bound.dq), dk = share(got.dk, want.dk, bound.dk);
  const double dv = share(got.dv, want.dv, bound.dv);
  std::printf("double against the reference, in bounds: O %.3f LSE %.3f dQ %.3f dK %.3f dV %.3f\n",
              o, lse, dq, dk, dv);
  BOOST_TEST(std::max({o, lse, dq, dk, dv}) <= 1);
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_named) {
  on_both([](const Plugin& plugin) {
    const Contract contract = contract_of(plugin);
    DeviceTensor q(plugin, contract.input, 4, 2, 128), k(plugin, contract.input, 5, 1, 128);
    DeviceTensor o(plugin, contract.o, 4, 2, 128), lse(plugin, contract.lse, 4, 2, 0);
    int64_t intervals[] = {0, 1, 0, 2, 0, 3, 0, 5};
    bdlm_keys set{k.view(), k.view(), 0, nullptr, intervals, nullptr, nullptr};
    bdlm_attention_args args{};
    args.size = sizeof(args);
    args.scale = 1;
    args.q = q.view();
    args.key_set_count = 1;
    args.key_sets = &set;
    args.o = o.view();
    args.lse = lse.view();
    uint64_t bytes = 0;
    plugin.check(plugin->attention_workspace(plugin.context(), &args, &bytes));
    const DeviceMemory workspace(plugin, bytes);
    args.workspace = workspace.get();
    args.workspace_bytes = bytes;
    const auto fails = [&](const char* with) {
      BOOST_TEST(plugin->attention(plugin.context(), &args) == BDLM_INVALID);
      const std::string text = plugin->last_error(plugin.context());
      BOOST_TEST(text.find(with) != std::string::npos, text);
    };
    plugin.check(plugin->attention(plugin.context(), &args));
    intervals[7] = 6;
    fails("row 3 sees the stored keys [0,6)");
    intervals[7] = 5;
    if (bytes > 0) {
      args.workspace_bytes = bytes - 1;
      fails("the workspace has");
      args.workspace_bytes = bytes;
    }
    args.scale = INFINITY;
    fails("the scale is inf");
    args.scale = 1;
    args.lse = o.view();
    fails("lse has shape (4, 2, 128)");
    args.lse = lse.view();
    args.o_state = o.view();
    fails("only one of them");
    args.o_state = nullptr;
    bdlm_tensor host = *q.view();
    host.device = {1, 0};
    args.q = &host;
    fails("q is on device 1:0");
    args.q = q.view();
    plugin.check(plugin->attention(plugin.context(), &args));
    DeviceTensor wide(plugin, contract.input, 4, 2, 528);
    args.q = wide.view();
    BOOST_TEST(plugin->attention(plugin.context(), &args) == BDLM_UNSUPPORTED);
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
