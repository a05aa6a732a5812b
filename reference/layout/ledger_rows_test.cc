#include "reference/layout/ledger_rows.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <numeric>
#include <random>
#include <set>

#include "reference/base/error.h"
#include "reference/layout/ownership.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(ledger_rows)

namespace {

using Blocks = std::vector<std::vector<int64_t>>;

/// Rows of chunk c of n in S parts, [c floor(n/S) + min(c, n mod S), the same for c + 1), one by
/// one.
std::vector<int64_t> chunk(int64_t n, int64_t parts, int64_t c) {
  std::vector<int64_t> rows;
  const int64_t end = (c + 1) * (n / parts) + std::min(c + 1, n % parts);
  for (int64_t i = c * (n / parts) + std::min(c, n % parts); i < end; ++i) {
    rows.push_back(i);
  }
  return rows;
}

/// The halo by definition: sets of (rank, key), every query against every clean key, with the mask
/// written out anew.
HaloRows halo_by_definition(const Sequence& s, const LayerRule& rule, const Blocks& blocks,
                            bool clean_queries, bool corrupted_queries) {
  const auto ranks = static_cast<int64_t>(blocks.size());
  const int64_t length = s.length();
  std::vector<int64_t> owner(length, -1);
  for (int64_t c = 0; c < 2 * ranks; ++c) {
    for (const int64_t i : chunk(length, 2 * ranks, c)) {
      owner[i] = c < ranks ? c : 2 * ranks - 1 - c;
    }
  }
  std::vector<int64_t> document(length, -1), block(length), start(length);
  for (size_t d = 0; d < s.documents().size(); ++d) {
    for (int64_t i = s.documents()[d].begin; i < s.documents()[d].end; ++i) {
      document[i] = static_cast<int64_t>(d);
    }
  }
  for (int64_t b = 0; b < s.blocks(); ++b) {
    for (int64_t i = s.block(b).begin; i < s.block(b).end; ++i) {
      block[i] = b;
      start[i] = s.block(b).begin;
    }
  }
  std::vector<std::set<int64_t>> seen(ranks);
  const auto ask = [&](int64_t rank, int64_t i, bool corrupted) {
    for (int64_t j = 0; j < length; ++j) {
      if (document[i] < 0 || document[i] != document[j]) {
        continue;
      }
      bool sees = false;
      if (corrupted) {
        sees = block[j] < block[i] && (rule.window == 0 || j >= start[i] - (rule.window - 1));
      } else {
        sees = (rule.clean == CleanRule::token_causal ? j <= i : block[j] <= block[i]) &&
               (rule.window == 0 || i - j < rule.window);
      }
      if (sees && owner[j] != rank) {
        seen[rank].insert(j);
      }
    }
  };
  for (int64_t r = 0; r < ranks; ++r) {
    for (int64_t i = 0; i < length; ++i) {
      const auto& mine = blocks[r];
      if (clean_queries && owner[i] == r) {
        ask(r, i, false);
      }
      if (corrupted_queries && std::find(mine.begin(), mine.end(), block[i]) != mine.end()) {
        ask(r, i, true);
      }
    }
  }
  HaloRows halo{std::vector<int64_t>(ranks, 0), std::vector<int64_t>(ranks, 0)};
  for (int64_t r = 0; r < ranks; ++r) {
    halo.received[r] = static_cast<int64_t>(seen[r].size());
    for (const int64_t j : seen[r]) {
      ++halo.sent[owner[j]];
    }
  }
  return halo;
}

Blocks dual_end(const Sequence& s, int ranks) {
  return assign_blocks(s, Scheme::csbp, ranks, BlockAssignment::dual_end, {});
}

void same(const HaloRows& a, const HaloRows& b) {
  BOOST_TEST(a.received == b.received, boost::test_tools::per_element());
  BOOST_TEST(a.sent == b.sent, boost::test_tools::per_element());
}

// sum over c of chunk_rows = n; chunk_rows(c) = floor or ceiling of n / S
BOOST_AUTO_TEST_CASE(chunks_are_balanced) {
  for (int64_t parts = 1; parts <= 9; ++parts) {
    for (int64_t n = 0; n <= 40; ++n) {
      int64_t total = 0;
      for (int64_t c = 0; c < parts; ++c) {
        const int64_t rows = chunk_rows(n, parts, c);
        BOOST_TEST(rows == static_cast<int64_t>(chunk(n, parts, c).size()));
        total += rows;
      }
      BOOST_TEST(total == n);
    }
  }
}

// padded = max over r of the rows of rank r, for every L and P up to 4 P and beyond
BOOST_AUTO_TEST_CASE(padded_rows_are_the_largest_shard) {
  for (int64_t p = 1; p <= 17; ++p) {
    for (int64_t n = 1; n <= 5 * p + 7; ++n) {
      size_t both = 0, clean = 0, zigzag = 0;
      for (int64_t r = 0; r < p; ++r) {
        both = std::max(both, chunk(n, p, r).size() + chunk(n, p, p - 1 - r).size());
        clean = std::max(clean, chunk(n, p, p - 1 - r).size());
        zigzag =
            std::max(zigzag, chunk(n, 2 * p, r).size() + chunk(n, 2 * p, 2 * p - 1 - r).size());
      }
      BOOST_TEST_CONTEXT("L=" << n << " P=" << p) {
        BOOST_TEST(cp_padded_rows(n, p) == static_cast<int64_t>(both));
        BOOST_TEST(cp_clean_padded_rows(n, p) == static_cast<int64_t>(clean));
        BOOST_TEST(csbp_padded_rows(n, p) == static_cast<int64_t>(zigzag));
      }
    }
  }
}

// received(0) = received(P-1) = w-1, others 2(w-1); mean (w-1)(2P-2)/P; sent = received
BOOST_AUTO_TEST_CASE(uniform_halo_has_a_closed_form) {
  for (const int p : {1, 2, 3, 4, 8}) {
    for (const int64_t m : {1, 4, 16}) {
      for (const int64_t per_chunk : {1, 2, 3}) {
        const int64_t chunk_size = m * per_chunk;
        const Sequence s = Sequence::uniform(2 * p * chunk_size, m);
        for (const int64_t w : {int64_t{1}, int64_t{2}, chunk_size / 2 + 1, chunk_size + 1}) {
          const std::vector<int64_t> rows = uniform_halo_rows(p, w);
          const int64_t total = std::accumulate(rows.begin(), rows.end(), int64_t{0});
          BOOST_TEST(total == (p == 1 ? 0 : (w - 1) * (2 * p - 2)));
          for (const auto& [clean, corrupted] :
               {std::pair{true, true}, {true, false}, {false, true}}) {
            BOOST_TEST_CONTEXT("P=" << p << " M=" << m << " chunk=" << chunk_size << " w=" << w
                                    << " queries " << clean << corrupted) {
              same(count_halo(s, {CleanRule::token_causal, w}, dual_end(s, p), clean, corrupted),
                   {rows, rows});
            }
          }
        }
      }
    }
  }
}

// counted = defined, over odd lengths, documents with padding, windows of every size, both clean
// rules, every division of the blocks
BOOST_AUTO_TEST_CASE(counted_halo_is_the_definition) {
  std::mt19937_64 random(20240917);
  const auto draw = [&](int64_t lo, int64_t hi) {
    return std::uniform_int_distribution<int64_t>(lo, hi)(random);
  };
  int64_t right_side = 0;
  int64_t rows = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const int64_t length = draw(1, 60);
    std::vector<Interval> documents;
    for (int64_t at = draw(0, 3); at < length;) {
      const int64_t end = std::min(length, at + draw(1, 30));
      documents.push_back({at, end});
      at = end + (draw(0, 2) == 0 ? draw(1, 5) : 0);
    }
    const Sequence s = Sequence::uniform(length, draw(1, 20), documents);
    const int64_t ranks = draw(1, 6);
    Blocks blocks(ranks);
    for (int64_t b = 0; b < s.blocks(); ++b) {
      blocks[draw(0, ranks - 1)].push_back(b);
    }
    const LayerRule rule{draw(0, 1) == 0 ? CleanRule::block_causal : CleanRule::token_causal,
                         std::vector<int64_t>{0, 1, 2, 3, 7, 15, 100}[draw(0, 6)]};
    const int64_t queries = draw(1, 3);
    BOOST_TEST_CONTEXT("trial " << trial) {
      const HaloRows counted = count_halo(s, rule, blocks, queries & 1, queries & 2);
      same(counted, halo_by_definition(s, rule, blocks, queries & 1, queries & 2));
      rows += std::accumulate(counted.received.begin(), counted.received.end(), int64_t{0});
      if (rule.window == 1 && rule.clean == CleanRule::block_causal && (queries & 1) != 0) {
        // With w = 1 a clean row sees nothing on its left, so all its halo is on its right.
        right_side += std::accumulate(counted.received.begin(), counted.received.end(), int64_t{0});
      }
    }
  }
  BOOST_TEST(rows > 1000);
  BOOST_TEST(right_side > 50);
}

// L = 16, P = 2, M = 8, w = 3: chunks of 4, rank 0 has clean rows 0-3 and 12-15, rank 1 rows 4-11.
// Block-causal clean row 3 sees [1, 8) and row 4 sees [2, 8): rank 0 lacks 4-7 on the right of row
// 3; row 12 sees [10, 16), so rank 0 lacks 10, 11 too. Rank 1: row 4 needs 2, 3; row 11 needs
// 12-15.
BOOST_AUTO_TEST_CASE(blocks_that_cross_chunks_have_a_right_halo) {
  const Sequence s = Sequence::uniform(16, 8);
  const HaloRows halo = count_halo(s, {CleanRule::block_causal, 3}, {{0}, {1}}, true, false);
  same(halo, {{6, 6}, {6, 6}});
  // Token-causal: rank 0 lacks 10, 11; rank 1 lacks 2, 3.
  same(count_halo(s, {CleanRule::token_causal, 3}, {{0}, {1}}, true, false), {{2, 2}, {2, 2}});
  // Corrupted rows of block 1 see clean [6, 8), which rank 1 owns; if rank 0 has the block, it
  // lacks them.
  same(count_halo(s, {CleanRule::token_causal, 3}, {{0}, {1}}, false, true), {{0, 0}, {0, 0}});
  same(count_halo(s, {CleanRule::token_causal, 3}, {{1}, {0}}, false, true), {{2, 0}, {0, 2}});
}

BOOST_AUTO_TEST_CASE(blocks_without_one_owner_are_errors) {
  const Sequence s = Sequence::uniform(16, 4);
  const LayerRule rule{CleanRule::token_causal, 2};
  BOOST_CHECK_NO_THROW(count_halo(s, rule, {{3, 0}, {1, 2}}, true, true));
  BOOST_CHECK_NO_THROW(count_halo(s, rule, {{3, 0, 1, 2}, {}}, true, true));
  for (const Blocks& bad : {Blocks{{0, 1}, {2}}, Blocks{{0, 1}, {2, 3, 1}}, Blocks{{0, 1}, {2, 4}},
                            Blocks{{0, -1}, {2, 3}}, Blocks{}}) {
    BOOST_CHECK_THROW(count_halo(s, rule, bad, true, true), InputError);
  }
}

BOOST_AUTO_TEST_CASE(a_million_tokens_take_seconds) {
  const auto begin = std::chrono::steady_clock::now();
  const Sequence s = Sequence::uniform(1 << 20, 256);
  for (const int p : {8, 1024}) {
    const std::vector<int64_t> rows = uniform_halo_rows(p, 257);
    same(count_halo(s, {CleanRule::token_causal, 257}, dual_end(s, p), true, true), {rows, rows});
  }
  // A window that covers everything: what a rank sees is all before its last chunk.
  const HaloRows all =
      count_halo(s, {CleanRule::token_causal, 1 << 21}, dual_end(s, 1024), true, true);
  BOOST_TEST(all.received[0] == (1 << 20) - 1024);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  BOOST_TEST_MESSAGE("three counts over 2^20 tokens: " << seconds << " s");
  BOOST_TEST(seconds < 60);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
