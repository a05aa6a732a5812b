#pragma once
// What the usual comparisons say of mistakes, beside the judge, on the same data.

#include <string>
#include <vector>

#include "conformance/report/report.h"

namespace bdlm {

/// Comparisons of O, dQ, dK and dV with the reference in higher precision, as kernels' own tests
/// make them; naive is attention as a chain of bf16 operations. Whether each holds.
struct UsualRules {
  bool allclose = true;     ///< |x' - x| <= 0.05 + 0.05 |x| for every element
  bool twice_naive = true;  ///< max |x' - x| <= 2 max |naive - x|
  bool mean_naive = true;   ///< mean |x' - x| <= 1.1 mean |naive - x|
};

struct RuleComparison {
  std::string fault;
  std::string contract;
  UsualRules usual;
  /// The judge's, tensor by tensor.
  std::vector<TensorResult> judged;
  /// The worst of them.
  Verdict verdict = Verdict::pass;
};

/// Every numeric fault (numeric_faults.h), and none, on the same Gaussian data: 320 tokens in
/// blocks of 32 whose keys lie on 8 ranks, 4 query and 2 KV heads of 64 channels.
std::vector<RuleComparison> compare_rules();

/// A table for people.
std::string format_rules(const std::vector<RuleComparison>& rows);

/// One JSON document: `rows[]` with `fault`, `contract`, `allclose`, `twice_naive`, `mean_naive`,
/// `judge`, `reasons[]`; `summary` with how many faults each found.
std::string rules_report(const RunInfo& info, const std::vector<RuleComparison>& rows);

}  // namespace bdlm
