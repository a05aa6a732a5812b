// The oracle's bounds and deviations are the judge's.

#include <boost/test/unit_test.hpp>
#include <cstdio>

#include "conformance/judge/bounds.h"
#include "conformance/judge/test_cases.h"
#include "optimized/cuda/device_attention_test.h"
#include "optimized/cuda/device_test_plugins.h"
#include "optimized/cuda/error_model_test.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(device_bounds)

namespace {

/// Two sums of the same terms in double, in another order, and differences of them: far below what
/// a wrong term would change.
constexpr double agreement = 0x1p-30;

/// Bounds and deviations, by stream.
struct GotBounds {
  ByStream<double> bound, deviation;
};

class DeviceBounds : public DeviceAttention {
 public:
  using DeviceAttention::DeviceAttention;

  /// O, LSE, dQ, dK, dV.
  std::vector<GotBounds> bounds(const bdlm_error_model& model) {
    const auto workspace_of = plugin_.symbol<decltype(bdlm_attention_bounds_workspace)>(
        "bdlm_attention_bounds_workspace");
    const auto entry = plugin_.symbol<decltype(bdlm_attention_bounds)>("bdlm_attention_bounds");
    require(workspace_of != nullptr && entry != nullptr, "the oracle has no bounds");
    compute();
    const AttentionShape& s = problem_.shape;
    const std::vector<bdlm_keys> sets = key_sets(0, dk_, dv_);
    bdlm_attention_backward_args call = backward_args(sets);
    call.dq = dq_->view();
    std::vector<std::unique_ptr<DeviceTensor>> made;
    const auto make = [&](int64_t rows, int64_t heads, int64_t channels) {
      made.push_back(tensor(Dtype::f64, rows, heads, channels));
      return made.back()->view();
    };
    bdlm_attention_bounds_args args{};
    args.size = sizeof(args);
    args.call = &call;
    args.model = &model;
    args.o_bound = make(rows_, s.q_heads, s.head_dim);
    args.o_deviation = make(rows_, s.q_heads, s.head_dim);
    args.lse_bound = make(rows_, s.q_heads, 0);
    args.lse_deviation = make(rows_, s.q_heads, 0);
    args.dq_bound = make(rows_, s.q_heads, s.head_dim);
    args.dq_deviation = make(rows_, s.q_heads, s.head_dim);
    for (int i = 0; i < 2; ++i) {
      args.dk_bound[i] = make(length_, s.kv_heads, s.head_dim);
      args.dk_deviation[i] = make(length_, s.kv_heads, s.head_dim);
      args.dv_bound[i] = make(length_, s.kv_heads, s.head_dim);
      args.dv_deviation[i] = make(length_, s.kv_heads, s.head_dim);
    }
    uint64_t bytes = 0;
    plugin_.check(workspace_of(plugin_.context(), &args, &bytes));
    const DeviceMemory workspace(plugin_, bytes);
    args.workspace = workspace.get();
    args.workspace_bytes = bytes;
    plugin_.check(entry(plugin_.context(), &args));
    plugin_.check(plugin_->synchronize(plugin_.context(), run_.stream));
    std::vector<GotBounds> out;
    for (int i = 0; i < 3; ++i) {
      out.push_back({parted(made[2 * i]->read()), parted(made[2 * i + 1]->read())});
    }
    for (const int first : {6, 8}) {
      out.push_back({{made[first]->read(), made[first + 4]->read()},
                     {made[first + 1]->read(), made[first + 5]->read()}});
    }
    return out;
  }
};

/// The largest relative difference; infinite where one is 0 and the other is not.
double apart(const ByStream<double>& x, const ByStream<double>& y) {
  double most = 0;
  for (int s = 0; s < 2; ++s) {
    BOOST_REQUIRE(x[s].size() == y[s].size());
    for (size_t i = 0; i < x[s].size(); ++i) {
      const double off = std::abs(x[s][i] - y[s][i]);
      most = std::max(most, off == 0 ? 0 : std::isnan(off) ? INFINITY : off / std::abs(y[s][i]));
    }
  }
  return most;
}

BOOST_AUTO_TEST_CASE(bounds_are_those_of_the_judge) {
  const Plugin& oracle = *test_plugins().oracle;
  const Contract f64 = contract_of(oracle);
  const Contract low = contract_of(*test_plugins().low);
  Contract chained = low;
  chained.chain = 32;
  const LayerRule token{CleanRule::token_causal, 0};
  const Sequence documents = Sequence::uniform(150, 4, {{0, 5}, {5, 16}, {30, 140}});
  struct Case {
    const char* what;
    Decomposition decomposition;
    AttentionShape heads;
    const Contract& contract;
  };
  const std::vector<Case> cases = {
      {"D 64", whole(Sequence::uniform(200, 16), token), {4, 2, 64}, low},
      {"D 128, chain 32", whole(Sequence::uniform(150, 1), token), {3, 1, 128}, chained},
      {"D 40, documents", whole(documents, {CleanRule::block_causal, 9}), {4, 2, 40}, low},
      {"D 256", whole(Sequence::uniform(90, 32), token), {2, 1, 256}, low},
      {"D 512", whole(Sequence::uniform(60, 8), token), {2, 1, 512}, low},
      {"D 64, double", whole(Sequence::uniform(90, 16), token), {2, 1, 64}, f64}};
  static constexpr const char* names[] = {"O", "LSE", "dQ", "dK", "dV"};
  for (const Case& c : cases) {
    const AttentionProblem<double> p =
        rounded_data(c.heads, c.decomposition, DataKind::gauss, 31, c.contract);
    const ExpectedAttention expected = expected_attention(p, c.decomposition, c.contract);
    const std::vector<GotBounds> got = DeviceBounds(oracle, f64, p, c.decomposition, {})
                                           .bounds(error_model_of(c.contract, c.heads.head_dim, 0));
    const ExpectedTensor* tensors[] = {&expected.o, &expected.lse, &expected.dq, &expected.dk,
                                       &expected.dv};
    std::printf("bounds, %-18s relative difference of H and sigma:", c.what);
    for (int i = 0; i < 5; ++i) {
      const double bound = apart(got[i].bound, tensors[i]->bound);
      const double deviation = apart(got[i].deviation, tensors[i]->deviation);
      std::printf("  %s %.1e %.1e", names[i], bound, deviation);
      BOOST_TEST(bound <= agreement, c.what << ' ' << names[i] << " bound " << bound);
      BOOST_TEST(deviation <= agreement, c.what << ' ' << names[i] << " deviation " << deviation);
    }
    std::printf("\n");
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
