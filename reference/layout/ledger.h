#pragma once
// The ledger of attention traffic and memory: what a training step has to send, derived from the
// shapes alone.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reference/layout/architecture.h"
#include "reference/layout/ownership.h"
#include "reference/layout/sequence.h"

namespace bdlm {

/// Bytes of one element by what is done with it.
struct ElementBytes {
  /// K and V as they are held and sent.
  int64_t gather = 2;
  /// Gradients of K and V as they are summed over ranks, or returned to their owners.
  int64_t scatter = 4;
  /// The row log-sum-exp.
  int64_t lse = 4;

  /// bf16 throughout, as published tables count.
  static ElementBytes paper() { return {2, 2, 4}; }
  /// bf16, gradients reduced in fp32.
  static ElementBytes as_run() { return {2, 4, 4}; }
  static ElementBytes f64() { return {8, 8, 8}; }
  friend bool operator==(const ElementBytes&, const ElementBytes&) = default;
};

/// What a step keeps between forward and backward, hence how often it gathers.
enum class Checkpointing : uint8_t {
  full_recompute,  ///< every layer runs its forward again: gather, gather, reduce-scatter
  keep_kv,         ///< recompute, but the gathered K and V stay: gather, reduce-scatter
  none,            ///< nothing is computed twice: gather, reduce-scatter
};
const char* name(Checkpointing checkpointing);

struct LedgerOptions {
  Scheme scheme = Scheme::csbp;
  int64_t ranks = 1;
  /// The corrupted blocks of each rank; needed by BP and CSBP, ignored by others.
  std::vector<std::vector<int64_t>> blocks_of_rank;
  ElementBytes bytes = ElementBytes::as_run();
  Checkpointing checkpointing = Checkpointing::full_recompute;
  /// What clean rows see; the architecture's rule where absent.
  std::optional<CleanRule> clean_rule;
};

enum class Transfer : uint8_t {
  none,        ///< nothing moves
  collective,  ///< all-gather and reduce-scatter of padded shards
  exchange,    ///< grouped sends and receives of halo rows, gradients the same way back
};
const char* name(Transfer transfer);

/// What like layers send in one attention role. All counts are of one layer unless they say
/// otherwise.
struct LedgerEntry {
  std::string role;
  /// The layers, which have all of the following in common.
  std::vector<int64_t> layers;
  LayerShape shape;
  /// False where the ledger has no formula; then `reason` says why and there are no figures.
  bool covered = true;
  std::string reason;
  Transfer transfer = Transfer::none;
  /// Rows of a padded shard; 0 unless collective.
  int64_t padded_rows = 0;
  /// K and V rows that each rank sends in one forward pass: padded_rows * (P-1), or halo rows.
  std::vector<int64_t> rows_forward;
  /// Rows of K and V gradients that each rank sends in the backward pass.
  std::vector<int64_t> rows_backward;
  /// Forward passes of a step: 2 with full recompute, else 1. There is one backward pass.
  int64_t forward_passes = 0;
  /// Bytes that each rank sends in one forward pass, and in the backward pass.
  std::vector<int64_t> bytes_forward;
  std::vector<int64_t> bytes_backward;

  /// All passes of all `layers`. Throws InputError if not covered.
  int64_t step_bytes(int64_t rank) const;
};

/// A training step of one sequence: attention only, logical bytes sent.
struct Ledger {
  LedgerOptions options;
  std::vector<LedgerEntry> entries;

  /// Whether every entry is covered.
  bool complete() const;
  /// Bytes that a rank sends. Throws InputError, which names the gap, if incomplete.
  int64_t bytes_of_rank(int64_t rank) const;
  /// The sum over ranks. Throws as above.
  int64_t total_bytes() const;
  /// The mean over ranks in GiB (2^30 bytes). Throws as above.
  double mean_gib() const;
};

/// All sequences have as many corrupted rows as clean ones. Delta layers and drafters have entries
/// that are not covered. Rows sent, with shards padded to the largest rank's:
///
///   monolithic, BP       nothing
///   CP                   (P-1) * padded rows of both streams; of the clean one if no corrupted
///   keys
///                        are asked (an encoder)
///   CSBP, full layers    (P-1) * padded clean rows
///   CSBP, sliding        clean rows that other ranks' queries see
///
/// Bytes are rows * 2 * kv_heads * head_dim * element bytes. Throws InputError on ranks < 1, more
/// than one rank under monolithic, blocks that do not cover the sequence once, or figures beyond
/// 2^63.
Ledger make_ledger(const Architecture& architecture, const Sequence& sequence,
                   const LedgerOptions& options);

/// Bytes of one layer's attention tensors on one rank. Gradients of its own rows are not counted:
/// they repeat Q, K and V in every scheme.
struct AttentionMemory {
  int64_t q = 0;    ///< own query rows * q_heads * head_dim * gather
  int64_t kv = 0;   ///< own key rows * 2 * kv_heads * head_dim * gather
  int64_t o = 0;    ///< as q
  int64_t lse = 0;  ///< own query rows * q_heads * lse
  /// K and V of other ranks: P * padded rows, or halo rows, * 2 * kv_heads * head_dim * gather.
  int64_t gathered = 0;
  /// Their gradients: the same rows in elements of `scatter`.
  int64_t gathered_gradients = 0;
  /// BP: Q, K, V, O and z of the clean rows [0, start of the last block), which the rank computes
  /// again though they are not its own. Own rows are then the corrupted ones. A loss on clean rows
  /// may need a longer prefix than this.
  int64_t replicated = 0;

  int64_t total() const { return q + kv + o + lse + gathered + gathered_gradients + replicated; }
};

/// By rank. Throws InputError as make_ledger does, and for what it does not cover.
std::vector<AttentionMemory> attention_memory(const Architecture& architecture,
                                              const Sequence& sequence,
                                              const LedgerOptions& options, int64_t layer,
                                              const AttentionRole& role);

}  // namespace bdlm
