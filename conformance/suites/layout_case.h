#pragma once
// The shapes that find faults: which sequence, which mask, which decomposition.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/report/case_id.h"
#include "reference/layout/ownership.h"
#include "reference/layout/sequence.h"
#include "reference/layout/visibility.h"

namespace bdlm {

/// How much is run. quick: every tier, a minute at most on two cores. gate: every listed shape
/// under every scheme. full: more ranks and seeds on top.
enum class Level : uint8_t { quick, gate, full };
/// Throws InputError naming the known levels.
Level parse_level(std::string_view text);

/// A sequence and the words by which a case names it.
struct Shape {
  Sequence sequence = Sequence::uniform(1, 1);
  /// Nominal block size; 0 when blocks are given one by one.
  int64_t block_size = 1;
  /// Lengths of documents and, behind a 'p', of trailing padding, for instance "5.11p2"; empty for
  /// one document of all tokens.
  std::string documents;
  /// Lengths of explicit blocks, for instance "1.1.9"; empty for uniform ones.
  std::string blocks;
};

/// One decomposition of one shape under one mask.
struct LayoutCase {
  Shape shape;
  LayerRule rule;
  Scheme scheme = Scheme::monolithic;
  int ranks = 1;
  BlockAssignment assignment = BlockAssignment::dual_end;

  Ownership ownership(bool clean_loss = false) const {
    return divide(shape.sequence, scheme, ranks, {assignment, clean_loss, {rule}});
  }
  /// The id with the parts that the layout determines.
  CaseId id() const;
};

/// Documents of these lengths from position 0, then padding up to `length`.
Shape shape_of_documents(int64_t length, int64_t block_size, const std::vector<int64_t>& documents);

/// Every listed shape that `ranks` ranks can share, with its masks.
std::vector<LayoutCase> layout_cases(Level level, Scheme scheme, int ranks);

/// The numbers of ranks at which schemes are judged.
std::vector<int> rank_counts(Level level);

}  // namespace bdlm
