#pragma once
// Who holds what: rows by rank under each decomposition.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/layout/row_set.h"
#include "reference/layout/sequence.h"
#include "reference/layout/visibility.h"

namespace bdlm {

/// How the rows of both streams are divided over P ranks.
enum class Scheme : uint8_t {
  monolithic,  ///< one rank holds all
  cp,          ///< context parallelism: both streams by position, clean mirrored
  bp,          ///< block parallelism: whole corrupted blocks, clean prefix replicated
  csbp,        ///< context-sharded block parallelism: whole corrupted blocks, clean zigzag
};
const char* name(Scheme scheme);
/// Throws InputError naming the known schemes.
Scheme parse_scheme(std::string_view text);

/// How corrupted blocks are dealt to ranks under BP and CSBP.
enum class BlockAssignment : uint8_t {
  dual_end,    ///< pairs (i, B-1-i) in contiguous runs
  contiguous,  ///< contiguous runs of blocks (the ablation)
  balanced,    ///< by attended pairs, the heaviest block first to the least loaded rank
};
const char* name(BlockAssignment assignment);
/// Throws InputError naming the known assignments.
BlockAssignment parse_assignment(std::string_view text);

/// Chunk `c` of `n` rows in `parts` balanced chunks: begins at c * floor(n / parts) +
/// min(c, n mod parts).
Interval balanced_chunk(int64_t n, int64_t parts, int64_t c);

/// The blocks of each rank, ascending; every block has one rank, every rank at least one block.
///
/// dual_end: tasks are the pairs (i, B-1-i), contiguous runs of which go to ranks 0, 1, ..., the
/// first ones one pair more; a middle block goes to the rank with fewest rows, the lowest of
/// equals. With fewer tasks than ranks, single blocks from the last to the first go to the rank
/// with fewest rows. balanced: the block of most attended pairs first, each to the rank with fewest
/// pairs so far, clean rows included; where that does not make the largest load smaller, as
/// dual_end. Throws InputError if ranks < 1 or there are fewer blocks than ranks.
std::vector<std::vector<int64_t>> assign_blocks(const Sequence& sequence, Scheme scheme, int ranks,
                                                BlockAssignment assignment,
                                                const std::vector<LayerRule>& rules);

/// One decomposition of one sequence.
struct Ownership {
  Scheme scheme = Scheme::monolithic;
  BlockAssignment assignment = BlockAssignment::dual_end;
  int ranks = 1;
  /// The rows that each rank holds and computes. Under BP clean rows occur on several ranks.
  std::vector<RowSet> rows;
  /// The rows whose loss terms each rank counts: every row of both streams once.
  std::vector<RowSet> counted;
  /// The corrupted blocks of each rank; empty lists under CP and monolithic.
  std::vector<std::vector<int64_t>> blocks;
};

struct OwnershipOptions {
  BlockAssignment assignment = BlockAssignment::dual_end;
  /// Clean rows carry a loss: BP then extends a rank's prefix over the clean rows it counts.
  bool clean_loss = false;
  /// The masks of all layers, by which `balanced` counts pairs; none stands for one full layer.
  std::vector<LayerRule> rules = {};
};

/// Throws InputError when the scheme cannot divide the sequence: ranks < 1, monolithic on more than
/// one rank, fewer blocks than ranks under BP and CSBP.
Ownership divide(const Sequence& sequence, Scheme scheme, int ranks,
                 const OwnershipOptions& options = {});

/// The clean rows that the queries of `held` see and that are not among its clean rows.
IntervalSet halo(const Sequence& sequence, const LayerRule& rule, const RowSet& held);

}  // namespace bdlm
