#pragma once
// Schedules on engines under the judge.

#include <boost/test/unit_test.hpp>

#include "conformance/judge/judge_attention.h"
#include "conformance/suites/attention_traffic.h"
#include "optimized/distributed/schedule_driver_test.h"

namespace bdlm::distributed {

/// Runs the case and judges every output by the backend's contract, and the bytes by the ledger.
/// Returns the largest err / H.
inline double judge_schedule(const std::function<RankDevice()>& make, const Contract& contract,
                             const LayoutCase& layout, const AttentionShape& shape, uint64_t seed) {
  const Sequence& sequence = layout.shape.sequence;
  const AttentionProblem<double> problem =
      backend_data(shape, sequence.length(), DataKind::gauss, seed, contract);
  const Layer layer{sequence,       layout.rule,    shape.q_heads,
                    shape.kv_heads, shape.head_dim, problem.scale};
  double worst = 0;
  std::vector<std::vector<LogEntry>> logs;
  for (const std::vector<RankPlan>& plans : groups_of(layout)) {
    const BackendOutcome got = run_on_ranks(make, layer, plans, problem);
    logs.insert(logs.end(), got.logs.begin(), got.logs.end());
    const Decomposition parts = of_plans(sequence, layout.rule, plans);
    const ExpectedAttention expected = expected_attention(problem, parts, contract);
    for (const TensorResult& t : judge_attention(problem, parts, expected, got.outputs, true)) {
      worst = std::max(worst, std::get<double>(*find_figure(t.figures, "err_over_h")));
      BOOST_TEST((t.verdict < Verdict::fail), layout.id().str()
                                                  << ' ' << t.tensor << ' ' << name(t.verdict)
                                                  << ' ' << name(t.reason) << ' ' << t.detail);
    }
  }
  const std::string bytes = compare_bytes(
      ledger_bytes(
          layout, shape,
          ElementBytes{size_of(contract.input), size_of(contract.reduce), size_of(contract.lse)}),
      logs);
  BOOST_TEST(bytes.empty(), layout.id().str() << ": " << bytes);
  return worst;
}

}  // namespace bdlm::distributed
