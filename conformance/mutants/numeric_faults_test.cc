// Mistakes in a low-precision pipeline: the judge names each, the usual comparisons let them pass.

#include "conformance/mutants/numeric_faults.h"

#include <boost/test/unit_test.hpp>

#include "conformance/judge/judge_attention.h"
#include "conformance/judge/test_cases.h"
#include "conformance/mutants/compare_rules.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(numeric)

namespace {

/// Whether every shape has a merge, and a reduction over all ranks: some mistakes need them.
bool concerns(const NumericFault& fault, const JudgedShape& shape) {
  const bool merge = fault.what.find("merge") == 0 || fault.what.find("partial") == 0;
  const bool reduce = fault.what.find("gradients") == 0;
  const auto& parts = shape.decomposition.parts[1].back();
  const bool merged = shape.decomposition.ranks > 1 &&
                      shape.decomposition.sequence.length() == 64 && parts.back().part > 0;
  const bool reduced = shape.decomposition.gradient_return[0] != GradientReturn::local;
  return (!merge || merged) && (!reduce || reduced);
}

// Every mistake, in every shape that it can touch, fails in the tensor where it was made, for the
// reason that names it.
BOOST_AUTO_TEST_CASE(every_mistake_fails) {
  for (const NumericFault& fault : numeric_faults()) {
    int cases = 0;
    for (const JudgedShape& shape : judged_shapes()) {
      if (!concerns(fault, shape)) {
        continue;
      }
      const Contract contract = builtin_contract(fault.contract);
      const AttentionProblem<double> p =
          rounded_data(shape.heads, shape.decomposition, DataKind::gauss, 11, contract);
      const ExpectedAttention expected = expected_attention(p, shape.decomposition, contract);
      const AttentionOutputs got = fault.run(p, shape.decomposition, contract);
      for (const TensorResult& t : judge_attention(p, shape.decomposition, expected, got, true)) {
        if (t.tensor == fault.tensor) {
          ++cases;
          const bool named = std::find(fault.reasons.begin(), fault.reasons.end(), t.reason) !=
                             fault.reasons.end();
          BOOST_TEST((t.verdict == Verdict::fail && named),
                     fault.what << " under " << fault.contract << ", " << shape.what << ": "
                                << t.tensor << ' ' << name(t.verdict) << ' ' << name(t.reason)
                                << ' ' << t.detail);
        }
      }
    }
    BOOST_TEST(cases >= 6, fault.what << " was made in " << cases << " shapes");
  }
}

// Of all mistakes allclose and the largest error find the average instead of a merge alone; the
// mean error finds those that reach every element of a tensor by 1 %.
BOOST_AUTO_TEST_CASE(usual_rules_let_mistakes_pass) {
  int mistakes = 0;
  int pass_mean = 0;
  const std::vector<RuleComparison> rows = compare_rules();
  for (const RuleComparison& row : rows) {
    if (row.fault == "none") {
      BOOST_TEST((row.verdict == Verdict::pass && row.usual.mean_naive));
      BOOST_TEST((row.usual.allclose && row.usual.twice_naive));
      continue;
    }
    ++mistakes;
    pass_mean += row.usual.mean_naive ? 1 : 0;
    BOOST_TEST((row.verdict == Verdict::fail), row.fault);
    const bool gross = row.fault == "merge by plain average";
    BOOST_TEST((row.usual.allclose != gross && row.usual.twice_naive != gross), row.fault);
  }
  BOOST_TEST(mistakes == 13);
  BOOST_TEST(pass_mean >= 6);
  const std::string table = format_rules(rows);
  BOOST_TEST(std::count(table.begin(), table.end(), '\n') == 16);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
