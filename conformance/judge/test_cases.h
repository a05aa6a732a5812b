#pragma once
// Problems for the judge's tests: shapes, decompositions, data in a contract's input format.

#include <string>
#include <vector>

#include "conformance/judge/decomposition.h"
#include "conformance/suites/rounded_data.h"
#include "reference/base/error.h"
#include "reference/layout/ownership.h"
#include "reference/schedule/plan_builder.h"

namespace bdlm {

/// One shape under one decomposition.
struct JudgedShape {
  std::string what;
  Decomposition decomposition;
  AttentionShape heads;
};

inline Decomposition planned(const Sequence& sequence, const LayerRule& rule, Scheme scheme,
                             int ranks) {
  const Ownership ownership =
      divide(sequence, scheme, ranks, {BlockAssignment::dual_end, false, {rule}});
  const std::vector<RankPlan> plans = build_plans(sequence, ownership, rule);
  return of_plans(sequence, rule, plans);
}

/// Query heads per KV head 1 to 4, windows, documents, padding, blocks of one token, 1 to 8 parts a
/// row, whole rows and every scheme that reduces gradients.
inline std::vector<JudgedShape> judged_shapes() {
  const LayerRule full{CleanRule::block_causal, 0};
  const LayerRule causal{CleanRule::token_causal, 0};
  const Sequence plain = Sequence::uniform(64, 8);
  const Sequence tokens = Sequence::uniform(40, 1);
  const Sequence documents = Sequence::uniform(61, 4, {{0, 5}, {5, 16}, {16, 17}, {17, 56}});
  std::vector<JudgedShape> out;
  out.push_back({"whole, full", whole(plain, full), {2, 2, 32}});
  out.push_back({"whole, window 12", whole(plain, {CleanRule::token_causal, 12}), {4, 1, 16}});
  out.push_back({"whole, documents and padding", whole(documents, causal), {4, 2, 16}});
  out.push_back({"whole, blocks of 1", whole(tokens, full), {3, 1, 24}});
  for (const int parts : {2, 3, 5, 8}) {
    out.push_back({join("split over ", parts), split_by_owner(plain, full, parts), {4, 2, 16}});
  }
  out.push_back(
      {"split over 4, window", split_by_owner(plain, {CleanRule::block_causal, 9}, 4), {2, 1, 32}});
  out.push_back({"split over 8, documents", split_by_owner(documents, full, 8), {2, 1, 16}});
  for (const int ranks : {2, 4}) {
    out.push_back({join("csbp ", ranks), planned(plain, full, Scheme::csbp, ranks), {4, 2, 16}});
    out.push_back({join("cp ", ranks), planned(plain, causal, Scheme::cp, ranks), {2, 2, 32}});
    out.push_back({join("csbp ", ranks, ", window"),
                   planned(plain, {CleanRule::token_causal, 7}, Scheme::csbp, ranks),
                   {4, 2, 16}});
  }
  return out;
}

}  // namespace bdlm
