#pragma once
// How many rows of K and V each rank sends in one attention call: closed forms, and counting by
// marking where there is none.
//
// This and ledger.h are a second derivation of what the schedules move. They share no code with the
// schedules and their ownership, so that "counted bytes equal the ledger" is a check.

#include <cstdint>
#include <vector>

#include "reference/layout/sequence.h"
#include "reference/layout/visibility.h"

namespace bdlm {

/// Rows of chunk `c` of `n` in `parts` balanced chunks: the first n mod parts have one more.
int64_t chunk_rows(int64_t n, int64_t parts, int64_t c);

/// Rows of the largest shard under context parallelism, where rank r packs corrupted chunk r and
/// clean chunk P-1-r of P. With L = qP + s: 2q + (0 if s = 0, 2 if 2s > P, else 1).
int64_t cp_padded_rows(int64_t length, int64_t ranks);

/// The same where only clean rows are gathered: q + (0 if s = 0, else 1).
int64_t cp_clean_padded_rows(int64_t length, int64_t ranks);

/// Rows of the largest clean shard under CSBP, where rank r packs clean chunks r and 2P-1-r of 2P.
/// With L = 2Pq + s: 2q + (0 if s = 0, 1 if s <= P, else 2).
int64_t csbp_padded_rows(int64_t length, int64_t ranks);

/// Clean rows that a sliding layer exchanges under CSBP, by rank.
struct HaloRows {
  /// Rows the rank's queries see and it does not own.
  std::vector<int64_t> received;
  /// Own rows that go to other ranks; a row that two of them see counts twice.
  std::vector<int64_t> sent;
};

/// Counts the halo: marks the clean keys of every query row, rank by rank. Queries are the clean
/// rows of zigzag chunks r and 2P-1-r (if `clean_queries`) and the corrupted rows of the rank's
/// blocks (if `corrupted_queries`). Time is linear in the rows and in the marks, P * L at worst.
/// Throws InputError unless `blocks_of_rank` has every block exactly once.
HaloRows count_halo(const Sequence& sequence, const LayerRule& rule,
                    const std::vector<std::vector<int64_t>>& blocks_of_rank, bool clean_queries,
                    bool corrupted_queries);

/// The halo in closed form for one document, uniform blocks, B mod 2P = 0, dual-end ownership,
/// chunks of at least w-1 rows and token-causal clean rows, either query stream: of the two chunks
/// of a rank the first lacks w-1 rows on its left, unless it starts the sequence, and so does the
/// second, unless the first is its neighbour. So w-1 rows for ranks 0 and P-1, 2(w-1) for the
/// others, 0 if P = 1; the mean is (w-1)(2P-2)/P. A rank sends as many as it receives.
std::vector<int64_t> uniform_halo_rows(int64_t ranks, int64_t window);

/// Throws InputError unless `blocks_of_rank` has every block of the sequence exactly once.
void check_blocks_of_rank(const Sequence& sequence,
                          const std::vector<std::vector<int64_t>>& blocks_of_rank);

}  // namespace bdlm
