#include "conformance/suites/layout_case.h"

#include <set>

#include "reference/base/error.h"

namespace bdlm {
namespace {

Shape uniform(int64_t length, int64_t block_size) {
  return {Sequence::uniform(length, block_size), block_size, "", ""};
}

Shape explicit_blocks(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> starts;
  std::string word;
  int64_t at = 0;
  for (const int64_t length : lengths) {
    starts.push_back(at);
    at += length;
    word += join(word.empty() ? "" : ".", length);
  }
  return {Sequence::with_blocks(at, starts), 0, "", word};
}

constexpr LayerRule block_causal(int64_t window) {
  return {CleanRule::block_causal, window};
}
constexpr LayerRule token_causal(int64_t window) {
  return {CleanRule::token_causal, window};
}

/// Shapes whose number of blocks lies around P and 2P; none is a multiple of 2P tokens but one.
std::vector<Shape> block_counts(int ranks, Level level) {
  const int64_t p = ranks;
  std::set<int64_t> counts{p, p + 1, 2 * p - 2, 2 * p - 1, 2 * p, 2 * p + 1, 2 * p + 2, 2 * p + 5};
  if (level == Level::quick) {
    counts = {p, 2 * p + 1};
  }
  std::vector<Shape> out;
  for (const int64_t blocks : counts) {
    if (blocks >= p && blocks >= 1) {
      out.push_back(uniform(3 * blocks - 1, 3));
    }
  }
  return out;
}

}  // namespace

Level parse_level(std::string_view text) {
  if (text == "quick") {
    return Level::quick;
  }
  if (text == "gate") {
    return Level::gate;
  }
  require(text == "full", "unknown level '", text, "'; known are quick, gate, full");
  return Level::full;
}

CaseId LayoutCase::id() const {
  CaseId id(name(scheme));
  id.number("P", ranks).number("L", shape.sequence.length());
  if (shape.block_size > 0) {
    id.number("M", shape.block_size);
  }
  if (!shape.blocks.empty()) {
    id.word("blocks", "blocks" + shape.blocks);
  }
  if (!shape.documents.empty()) {
    id.word("docs", "docs" + shape.documents);
  }
  if (rule.window > 0) {
    id.number("w", rule.window);
  }
  id.word("clean", rule.clean == CleanRule::block_causal ? "blockcausal" : "tokencausal");
  if (assignment != BlockAssignment::dual_end) {
    id.word("assignment", name(assignment));
  }
  return id;
}

Shape shape_of_documents(int64_t length, int64_t block_size,
                         const std::vector<int64_t>& documents) {
  std::vector<Interval> intervals;
  std::string word;
  int64_t at = 0;
  for (const int64_t tokens : documents) {
    intervals.push_back({at, at + tokens});
    at += tokens;
    word += join(word.empty() ? "" : ".", tokens);
  }
  if (length > at) {
    word += join("p", length - at);
  }
  return {Sequence::uniform(length, block_size, intervals), block_size, word, ""};
}

std::vector<int> rank_counts(Level level) {
  if (level == Level::full) {
    return {1, 2, 3, 4, 5, 6, 7, 8, 16};
  }
  return {1, 2, 3, 4, 8};
}

std::vector<LayoutCase> layout_cases(Level level, Scheme scheme, int ranks) {
  std::vector<LayoutCase> out;
  std::set<std::string> ids;
  const int64_t p = ranks;
  const auto add = [&](const Shape& shape, const LayerRule& rule,
                       BlockAssignment assignment = BlockAssignment::dual_end) {
    const bool by_block = scheme == Scheme::bp || scheme == Scheme::csbp;
    if (by_block && shape.sequence.blocks() < ranks) {
      return;
    }
    const LayoutCase c{shape, rule, scheme, ranks, assignment};
    if (ids.insert(c.id().str()).second) {
      out.push_back(c);
    }
  };
  const bool quick = level == Level::quick;

  for (const Shape& shape : block_counts(ranks, level)) {
    add(shape, block_causal(0));
    add(shape, token_causal(4));
    if (!quick) {
      add(shape, token_causal(0));
      add(shape, block_causal(5));
    }
  }
  // Blocks of one token; one block of all; blocks larger than a chunk and across chunks.
  add(uniform(2 * p + 3, 1), block_causal(0));
  add(uniform(2 * p + 3, 1), token_causal(2));
  add(uniform(11, 11), block_causal(0));
  add(uniform(7 * p, 7), token_causal(3));
  // Windows: of one key, below and above the block size, of a chunk and more, beyond the sequence.
  const Shape windowed = uniform(8 * p + 3, 4);
  for (const int64_t window : {int64_t{1}, int64_t{2}, int64_t{6}, 4 * p + 3, 16 * p + 6}) {
    if (!quick || window == 1 || window == 6) {
      add(windowed, token_causal(window));
      add(windowed, block_causal(window));
    }
  }
  // Documents: blocks that restart off the grid, one token, nearly two per rank, padding behind.
  for (const auto& documents :
       {std::vector<int64_t>{5, 11}, {4, 12}, {1, 15}, {2 * p - 1, 7}, {1, 1, 1, 13}}) {
    int64_t length = 0;
    for (const int64_t tokens : documents) {
      length += tokens;
    }
    add(shape_of_documents(length, 2, documents), block_causal(0));
    if (!quick) {
      add(shape_of_documents(length, 2, documents), token_causal(3));
      add(shape_of_documents(length + 5, 2, documents), token_causal(0));
      add(shape_of_documents(length + 5, 2, documents), block_causal(4));
    }
  }
  add(shape_of_documents(21, 2, {5, 11}), token_causal(3));
  add(explicit_blocks({1, 1, 9, 2, 1, 5, 1, 1, 4}), block_causal(0));
  add(explicit_blocks({1, 1, 9, 2, 1, 5, 1, 1, 4}), token_causal(4));
  // The other ways of dealing blocks.
  if (scheme == Scheme::bp || scheme == Scheme::csbp) {
    for (const BlockAssignment how : {BlockAssignment::contiguous, BlockAssignment::balanced}) {
      add(uniform(3 * (2 * p + 3) - 1, 3), block_causal(0), how);
      add(uniform(3 * (2 * p + 3) - 1, 3), token_causal(5), how);
    }
  }
  return out;
}

}  // namespace bdlm
