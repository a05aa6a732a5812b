#pragma once
// A sequence of tokens: its documents, its blocks, its padding.

#include <cstdint>
#include <vector>

#include "reference/layout/interval.h"

namespace bdlm {

/// `length` tokens. Documents are disjoint intervals of them; what no document covers is padding.
/// Every token, padding included, is in one block; no block spans two documents, or a document and
/// padding. Both streams share the sequence: token i has one position, relative to its document.
class Sequence {
 public:
  /// Blocks of `block_size`, counted anew from the start of every document (and run of padding);
  /// the last of each may be short. No documents means one document of all tokens. Throws
  /// InputError on length < 1, block_size < 1, or documents that are empty, unsorted, overlapping
  /// or out of range.
  static Sequence uniform(int64_t length, int64_t block_size, std::vector<Interval> documents = {});

  /// Blocks as given: `block_starts` ascending from 0, and a start at every document boundary.
  static Sequence with_blocks(int64_t length, std::vector<int64_t> block_starts,
                              std::vector<Interval> documents = {});

  int64_t length() const { return length_; }
  /// The number of blocks B.
  int64_t blocks() const { return static_cast<int64_t>(block_starts_.size()) - 1; }
  Interval block(int64_t b) const { return {block_starts_[b], block_starts_[b + 1]}; }
  /// The index of the block that holds `token`.
  int64_t block_of(int64_t token) const;

  const std::vector<Interval>& documents() const { return documents_; }
  /// The document that holds `token`; empty for padding.
  Interval document_of(int64_t token) const;
  bool is_padding(int64_t token) const { return document_of(token).empty(); }
  /// The position id of `token`: its distance from its document's start; 0 for padding.
  int64_t position(int64_t token) const;

 private:
  Sequence() = default;
  int64_t length_ = 0;
  std::vector<int64_t> block_starts_;  // (B + 1), the last one is length
  std::vector<Interval> documents_;
};

}  // namespace bdlm
