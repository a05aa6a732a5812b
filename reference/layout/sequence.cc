#include "reference/layout/sequence.h"

#include "reference/base/error.h"

namespace bdlm {
namespace {

void check_documents(int64_t length, const std::vector<Interval>& documents) {
  int64_t end = 0;
  for (size_t d = 0; d < documents.size(); ++d) {
    const Interval& document = documents[d];
    require(!document.empty(), "document ", d, " is empty: ", document,
            "; a document needs at least one token");
    require(document.begin >= 0 && document.end <= length, "document ", d, " is ", document,
            ", outside the sequence [0,", length, ")");
    require(document.begin >= end, "document ", d, " is ", document,
            ", which overlaps or precedes the one before it, ending at ", end,
            "; documents must be ascending and disjoint");
    end = document.end;
  }
}

/// The runs from which blocks are counted: documents and the padding between them.
std::vector<Interval> runs_of(int64_t length, const std::vector<Interval>& documents) {
  std::vector<Interval> runs;
  int64_t at = 0;
  for (const Interval& document : documents) {
    if (document.begin > at) {
      runs.push_back({at, document.begin});
    }
    runs.push_back(document);
    at = document.end;
  }
  if (at < length) {
    runs.push_back({at, length});
  }
  return runs;
}

std::vector<Interval> or_one(int64_t length, std::vector<Interval> documents) {
  require(length >= 1, "sequence length is ", length, "; it must be at least 1");
  if (documents.empty()) {
    documents.push_back({0, length});
  }
  check_documents(length, documents);
  return documents;
}

}  // namespace

Sequence Sequence::uniform(int64_t length, int64_t block_size, std::vector<Interval> documents) {
  require(block_size >= 1, "block size is ", block_size, "; it must be at least 1");
  Sequence s;
  s.length_ = length;
  s.documents_ = or_one(length, std::move(documents));
  for (const Interval& run : runs_of(length, s.documents_)) {
    for (int64_t start = run.begin; start < run.end;
         start += std::min(block_size, run.end - start)) {
      s.block_starts_.push_back(start);
    }
  }
  s.block_starts_.push_back(length);
  return s;
}

Sequence Sequence::with_blocks(int64_t length, std::vector<int64_t> block_starts,
                               std::vector<Interval> documents) {
  Sequence s;
  s.length_ = length;
  s.documents_ = or_one(length, std::move(documents));
  require(!block_starts.empty() && block_starts.front() == 0,
          "block starts must begin with 0; they begin with ",
          block_starts.empty() ? join("nothing") : join(block_starts.front()));
  for (size_t b = 1; b < block_starts.size(); ++b) {
    require(block_starts[b] > block_starts[b - 1], "block start ", b, " is ", block_starts[b],
            "; it must be above the one before it, ", block_starts[b - 1]);
  }
  require(block_starts.back() < length, "block start ", block_starts.size() - 1, " is ",
          block_starts.back(), "; it must be below the length, ", length);
  for (const Interval& run : runs_of(length, s.documents_)) {
    require(std::binary_search(block_starts.begin(), block_starts.end(), run.begin),
            "no block starts at ", run.begin,
            ", where a document or padding begins; blocks must not span documents");
  }
  block_starts.push_back(length);
  s.block_starts_ = std::move(block_starts);
  return s;
}

int64_t Sequence::block_of(int64_t token) const {
  const auto it = std::upper_bound(block_starts_.begin(), block_starts_.end(), token);
  return static_cast<int64_t>(it - block_starts_.begin()) - 1;
}

Interval Sequence::document_of(int64_t token) const {
  const auto it = std::partition_point(documents_.begin(), documents_.end(),
                                       [&](const Interval& d) { return d.end <= token; });
  if (it == documents_.end() || token < it->begin) {
    return {token, token};
  }
  return *it;
}

int64_t Sequence::position(int64_t token) const {
  const Interval document = document_of(token);
  return document.empty() ? 0 : token - document.begin;
}

}  // namespace bdlm
