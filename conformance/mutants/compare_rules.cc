#include "conformance/mutants/compare_rules.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "conformance/judge/emulated.h"
#include "conformance/judge/judge_attention.h"
#include "conformance/mutants/numeric_faults.h"
#include "conformance/report/write_report.h"
#include "conformance/suites/rounded_data.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

UsualRules usual_rules(const AttentionOutputs& got, const AttentionOutputs& naive,
                       const ExpectedAttention& expected) {
  UsualRules all;
  const auto compare = [&](ByStream<double> AttentionOutputs::*output,
                           const ExpectedTensor& reference) {
    double most = 0;
    double sum = 0;
    double naive_most = 0;
    double naive_sum = 0;
    for (int s = 0; s < 2; ++s) {
      for (size_t i = 0; i < reference.value[s].size(); ++i) {
        const double x = reference.value[s][i];
        const double error = std::abs((got.*output)[s][i] - x);
        const double naive_error = std::abs((naive.*output)[s][i] - x);
        all.allclose = all.allclose && error <= 0.05 + 0.05 * std::abs(x);
        most = std::max(most, error);
        naive_most = std::max(naive_most, naive_error);
        sum += error;
        naive_sum += naive_error;
      }
    }
    all.twice_naive = all.twice_naive && most <= 2 * naive_most;
    all.mean_naive = all.mean_naive && sum <= 1.1 * naive_sum;
  };
  compare(&AttentionOutputs::o, expected.o);
  compare(&AttentionOutputs::dq, expected.dq);
  compare(&AttentionOutputs::dk, expected.dk);
  compare(&AttentionOutputs::dv, expected.dv);
  return all;
}

}  // namespace

std::vector<RuleComparison> compare_rules() {
  constexpr AttentionShape shape{4, 2, 64};
  const Decomposition d = split_by_owner(Sequence::uniform(320, 32), LayerRule{}, 8);
  const AttentionProblem<double> p =
      rounded_data(shape, d, DataKind::gauss, 3, builtin_contract("bf16"));
  const AttentionOutputs naive = naive_bf16(p, d);
  std::vector<RuleComparison> rows;
  for (const char* contract_name : {"bf16-fp32-reduce", "fp32"}) {
    const Contract contract = builtin_contract(contract_name);
    const ExpectedAttention expected = expected_attention(p, d, contract);
    std::vector<NumericFault> faults = numeric_faults();
    faults.insert(faults.begin(), no_fault(contract_name));
    for (const NumericFault& fault : faults) {
      if (fault.contract != contract_name) {
        continue;
      }
      const AttentionOutputs got = fault.run(p, d, contract);
      RuleComparison row{fault.what, contract_name, usual_rules(got, naive, expected),
                         judge_attention(p, d, expected, got, true), Verdict::pass};
      for (const TensorResult& t : row.judged) {
        row.verdict = std::max(row.verdict, t.verdict);
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string format_rules(const std::vector<RuleComparison>& rows) {
  const auto word = [](bool passes) { return padded(passes ? "pass" : "FAIL", 10); };
  std::string out = padded("fault", 30) + padded("contract", 18) + padded("allclose", 10) +
                    padded("2 x max", 10) + padded("1.1 mean", 10) + "judge\n";
  for (const RuleComparison& row : rows) {
    std::string verdicts;
    for (const TensorResult& t : row.judged) {
      if (t.verdict != Verdict::pass) {
        verdicts +=
            join(verdicts.empty() ? "" : "; ", t.tensor, ' ', name(t.verdict), ' ', name(t.reason));
      }
    }
    out += padded(row.fault, 30) + padded(row.contract, 18) + word(row.usual.allclose) +
           word(row.usual.twice_naive) + word(row.usual.mean_naive) +
           (verdicts.empty() ? "PASS" : verdicts) + '\n';
  }
  return out;
}

std::string rules_report(const RunInfo& info, const std::vector<RuleComparison>& rows) {
  Json list = Json::array();
  int64_t faults = 0;
  int64_t by_allclose = 0;
  int64_t by_max = 0;
  int64_t by_mean = 0;
  int64_t by_judge = 0;
  for (const RuleComparison& row : rows) {
    Json reasons = Json::array();
    for (const TensorResult& t : row.judged) {
      if (t.verdict == Verdict::fail) {
        reasons.push_back(join(t.tensor, ' ', name(t.reason)));
      }
    }
    list.push_back({{"fault", row.fault},
                    {"contract", row.contract},
                    {"allclose", row.usual.allclose},
                    {"twice_naive", row.usual.twice_naive},
                    {"mean_naive", row.usual.mean_naive},
                    {"judge", name(row.verdict)},
                    {"reasons", reasons}});
    if (row.fault != "none") {
      ++faults;
      by_allclose += row.usual.allclose ? 0 : 1;
      by_max += row.usual.twice_naive ? 0 : 1;
      by_mean += row.usual.mean_naive ? 0 : 1;
      by_judge += row.verdict == Verdict::fail ? 1 : 0;
    }
  }
  Json document{{"commit", info.commit},
                {"summary",
                 {{"faults", faults},
                  {"found_by_allclose", by_allclose},
                  {"found_by_twice_naive", by_max},
                  {"found_by_mean_naive", by_mean},
                  {"found_by_judge", by_judge}}},
                {"rows", list}};
  return document.dump(2) + "\n";
}

}  // namespace bdlm
