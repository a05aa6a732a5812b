#include "reference/layout/ledger_rows.h"

#include <algorithm>

#include "reference/base/error.h"

namespace bdlm {
namespace {

int64_t chunk_start(int64_t n, int64_t parts, int64_t c) {
  return c * (n / parts) + std::min(c, n % parts);
}

/// Marks clean rows seen by one rank after another. A row's mark is the last rank that saw it, so
/// the one array serves as an array of booleans for each rank in turn.
class Marks {
 public:
  Marks(const std::vector<int32_t>& owner, HaloRows& halo)
      : owner_(owner), halo_(halo), seen_by_(owner.size(), -1) {}

  void begin_rank(int32_t rank) {
    rank_ = rank;
    done_ = {0, 0};
  }

  /// Marks the keys of one more query row. Neighbouring rows see nearly the same keys: only what
  /// exceeds the run marked just before is visited.
  void see(const Interval& keys) {
    if (keys.empty()) {
      return;
    }
    if (done_.empty() || keys.begin > done_.end || keys.end < done_.begin) {
      mark(keys.begin, keys.end);
      done_ = keys;
      return;
    }
    mark(keys.begin, done_.begin);
    mark(done_.end, keys.end);
    done_ = {std::min(done_.begin, keys.begin), std::max(done_.end, keys.end)};
  }

 private:
  void mark(int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      if (seen_by_[row] != rank_) {
        seen_by_[row] = rank_;
        if (owner_[row] != rank_) {
          ++halo_.received[rank_];
          ++halo_.sent[owner_[row]];
        }
      }
    }
  }

  const std::vector<int32_t>& owner_;
  HaloRows& halo_;
  std::vector<int32_t> seen_by_;  // (L)
  int32_t rank_ = -1;
  Interval done_;
};

}  // namespace

int64_t chunk_rows(int64_t n, int64_t parts, int64_t c) {
  return n / parts + (c < n % parts ? 1 : 0);
}

int64_t cp_padded_rows(int64_t length, int64_t ranks) {
  const int64_t s = length % ranks;
  return 2 * (length / ranks) + (s == 0 ? 0 : 2 * s > ranks ? 2 : 1);
}

int64_t cp_clean_padded_rows(int64_t length, int64_t ranks) {
  return length / ranks + (length % ranks == 0 ? 0 : 1);
}

int64_t csbp_padded_rows(int64_t length, int64_t ranks) {
  const int64_t s = length % (2 * ranks);
  return 2 * (length / (2 * ranks)) + (s == 0 ? 0 : s <= ranks ? 1 : 2);
}

void check_blocks_of_rank(const Sequence& sequence,
                          const std::vector<std::vector<int64_t>>& blocks_of_rank) {
  std::vector<bool> owned(sequence.blocks(), false);
  int64_t count = 0;
  for (const auto& blocks : blocks_of_rank) {
    for (const int64_t b : blocks) {
      require(0 <= b && b < sequence.blocks(), "a rank owns block ", b, "; allowed is 0 to ",
              sequence.blocks() - 1);
      require(!owned[b], "block ", b, " is owned twice; every block has one owner");
      owned[b] = true;
      ++count;
    }
  }
  require(count == sequence.blocks(), "ranks own ", count, " blocks of ", sequence.blocks(),
          "; every block has one owner");
}

HaloRows count_halo(const Sequence& sequence, const LayerRule& rule,
                    const std::vector<std::vector<int64_t>>& blocks_of_rank, bool clean_queries,
                    bool corrupted_queries) {
  check_blocks_of_rank(sequence, blocks_of_rank);
  const int64_t length = sequence.length();
  const auto ranks = static_cast<int64_t>(blocks_of_rank.size());
  const int64_t chunks = 2 * ranks;
  std::vector<int32_t> owner(length);
  for (int64_t c = 0; c < chunks; ++c) {
    std::fill(owner.begin() + chunk_start(length, chunks, c),
              owner.begin() + chunk_start(length, chunks, c + 1),
              static_cast<int32_t>(std::min(c, chunks - 1 - c)));
  }
  HaloRows halo{std::vector<int64_t>(ranks, 0), std::vector<int64_t>(ranks, 0)};
  Marks marks(owner, halo);
  for (int64_t r = 0; r < ranks; ++r) {
    marks.begin_rank(static_cast<int32_t>(r));
    if (clean_queries) {
      for (const int64_t c : {r, chunks - 1 - r}) {
        for (int64_t i = chunk_start(length, chunks, c); i < chunk_start(length, chunks, c + 1);
             ++i) {
          marks.see(visible(sequence, rule, Stream::clean, i, Stream::clean));
        }
      }
    }
    if (corrupted_queries) {
      for (const int64_t b : blocks_of_rank[r]) {
        const Interval block = sequence.block(b);
        for (int64_t i = block.begin; i < block.end; ++i) {
          marks.see(visible(sequence, rule, Stream::corrupted, i, Stream::clean));
        }
      }
    }
  }
  return halo;
}

std::vector<int64_t> uniform_halo_rows(int64_t ranks, int64_t window) {
  if (ranks == 1) {
    return {0};
  }
  std::vector<int64_t> rows(ranks, 2 * (window - 1));
  rows.front() = rows.back() = window - 1;
  return rows;
}

}  // namespace bdlm
