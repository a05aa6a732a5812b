#pragma once
// The golden vectors of version 1: which cases there are. The list is immutable; a change of any
// case, or of what it gives, is version 2.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "conformance/judge/contract.h"
#include "conformance/suites/attention_data.h"
#include "conformance/suites/layout_case.h"
#include "conformance/suites/step_data.h"

namespace bdlm {

/// One attention layer, forward and backward, over both streams.
struct AttentionVector {
  LayoutCase layout;
  AttentionShape heads;
  DataKind data = DataKind::gauss;
};

/// Partial states of the same rows over disjoint keys, merged in order.
enum class MergeKind : uint8_t {
  gauss,  ///< ordinary outputs, log-sum-exps a few apart
  apart,  ///< log-sum-exps 80 apart, either side larger
  edges,  ///< one row for each case at which merges break
  tiny,   ///< a state that takes up 2^-24 of itself again and again
};
const char* name(MergeKind kind);

struct MergeVector {
  MergeKind kind = MergeKind::gauss;
  int64_t parts = 2;
  int64_t rows = 1;  // R
  int64_t heads = 1;
  int64_t head_dim = 1;
};

/// Cross-entropy of a linear head: (R, E) hidden rows, (V, E) head.
struct CrossEntropyVector {
  int64_t rows = 0;
  int64_t hidden = 0;
  int64_t vocab = 0;
  double softcap = 0;
  int64_t excluded = -1;
  double upstream = 1;
  /// A power of two on all hidden values: 1 gives logits of deviation 2 or so.
  double factor = 1;
};

/// A whole training step of a tiny model.
struct StepVector {
  StepSettings settings;
  /// The word by which the id tells settings apart.
  std::string word;
};

struct GoldenCase {
  /// Its parameters, conformance/report/case_id.h.
  std::string id;
  /// By name, contract.h.
  std::string contract;
  uint64_t seed = 1;
  /// Names of flags, flags.h.
  std::vector<std::string> flags;
  /// Whether the vector lies in golden/v1; else the manifest has digests and the vector is made on
  /// demand.
  bool stored = true;
  std::variant<AttentionVector, MergeVector, CrossEntropyVector, StepVector> what;

  /// "attention", "merge", "cross_entropy", "step": the folder under golden/v1.
  const char* family() const;
};

/// All of them, by family.
const std::vector<GoldenCase>& golden_cases();
/// Throws InputError for an id that does not exist.
const GoldenCase& find_golden_case(std::string_view id);
/// Those whose id matches a glob (case_id.h). Throws InputError where none does.
std::vector<GoldenCase> select_golden_cases(const std::string& glob, bool stored_only);

/// A kind of mistake that vectors catch, after the manner of Wycheproof.
struct GoldenFlag {
  std::string name;
  /// The class of mistake.
  std::string kind;
  std::string what_goes_wrong;
  std::string effect;
};
const std::vector<GoldenFlag>& golden_flags();

}  // namespace bdlm
