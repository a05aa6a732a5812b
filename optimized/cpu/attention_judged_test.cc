// The backend's attention under the judge, by the contracts that the backends declare.

#include <cstdio>
#include <nlohmann/json.hpp>

#include "conformance/judge/bounds.h"
#include "conformance/judge/judge_attention.h"
#include "conformance/judge/test_cases.h"
#include "optimized/cpu/backend.h"
#include "optimized/cpu/plugin_driver_test.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(attention_judged)

namespace {

Contract contract_of(const bdlm_backend* backend) {
  const Json json = Json::parse(backend->contract);
  return parse_contract(view(json, backend->name));
}

/// The worst verdict over the shapes; adds the largest err/H to `worst_bound`.
Verdict judge(const bdlm_backend* backend, const std::vector<JudgedShape>& shapes, DataKind kind,
              uint64_t seed, double& worst_bound) {
  const test::Driver driver(backend);
  const Contract contract = contract_of(backend);
  Verdict worst = Verdict::pass;
  for (const JudgedShape& shape : shapes) {
    const AttentionProblem<double> p =
        rounded_data(shape.heads, shape.decomposition, kind, seed, contract);
    const ExpectedAttention expected = expected_attention(p, shape.decomposition, contract);
    const AttentionOutputs got =
        test::LayerRun(driver, contract.input == Dtype::bf16 ? test::bf16 : test::fp32, p,
                       shape.decomposition)
            .run();
    for (const TensorResult& t :
         judge_attention(p, shape.decomposition, expected, got, kind == DataKind::gauss)) {
      worst = std::max(worst, t.verdict);
      if (const Figure* figure = find_figure(t.figures, "err_over_h")) {
        worst_bound = std::max(worst_bound, std::get<double>(*figure));
      }
      BOOST_TEST((t.verdict < Verdict::fail),
                 backend->name << ' ' << name(kind) << ' ' << shape.what << ' ' << t.tensor << ' '
                               << name(t.verdict) << ' ' << name(t.reason) << ' ' << t.detail);
    }
  }
  return worst;
}

/// Head counts, channels and lengths around the sizes of tiles and panels.
std::vector<JudgedShape> odd_shapes() {
  const Sequence plain = Sequence::uniform(70, 5);
  const Sequence documents = Sequence::uniform(71, 8, {{0, 5}, {5, 16}, {16, 17}, {17, 69}});
  const LayerRule full{CleanRule::block_causal, 0};
  const LayerRule window{CleanRule::token_causal, 9};
  std::vector<JudgedShape> out;
  for (const int64_t d : {1, 3, 8, 20, 63, 80, 130}) {
    out.push_back({join("D ", d), whole(plain, d % 2 == 0 ? full : window), {2, 1, d}});
  }
  for (const int64_t group : {3, 16, 70}) {
    out.push_back({join("group ", group), whole(documents, window), {group, 1, 8}});
    out.push_back(
        {join("group ", group, ", 2 heads"), split_by_owner(plain, full, 3), {2 * group, 2, 9}});
  }
  out.push_back({"blocks of 1, window 1",
                 whole(Sequence::uniform(67, 1), {CleanRule::token_causal, 1}),
                 {2, 2, 24}});
  out.push_back({"one block", whole(Sequence::uniform(129, 129), full), {3, 3, 32}});
  out.push_back({"one row", whole(Sequence::uniform(1, 1), full), {4, 2, 16}});
  return out;
}

BOOST_AUTO_TEST_CASE(contracts_are_readable) {
  BOOST_TEST(contract_of(bdlm_cpu_backend()).name == "fp32");
  BOOST_TEST(contract_of(bdlm_cpu_bf16_backend()).name == "bf16-storage");
}

BOOST_AUTO_TEST_CASE(gaussian_data_passes) {
  for (const bdlm_backend* backend : {bdlm_cpu_backend(), bdlm_cpu_bf16_backend()}) {
    double bound = 0;
    BOOST_TEST((judge(backend, judged_shapes(), DataKind::gauss, 1, bound) == Verdict::pass));
    judge(backend, odd_shapes(), DataKind::gauss, 2, bound);
    std::printf("%s: largest err/H %.3f\n", backend->name, bound);
  }
}

// Every kind of data on every other shape, in turn.
BOOST_AUTO_TEST_CASE(data_that_breaks_kernels_does_not_fail) {
  const std::vector<JudgedShape> all = judged_shapes();
  for (const bdlm_backend* backend : {bdlm_cpu_backend(), bdlm_cpu_bf16_backend()}) {
    size_t first = 0;
    for (const DataKind kind :
         {DataKind::scores_80, DataKind::scores_1e4, DataKind::local_above, DataKind::local_below,
          DataKind::equal_maxima, DataKind::cancelling}) {
      std::vector<JudgedShape> shapes;
      for (size_t i = first % 2; i < all.size(); i += 2) {
        shapes.push_back(all[i]);
      }
      ++first;
      double bound = 0;
      judge(backend, shapes, kind, 1, bound);
      std::printf("%s %s: largest err/H %.3f\n", backend->name, name(kind), bound);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
