#include "reference/layout/ledger.h"

#include <algorithm>

#include "reference/base/error.h"
#include "reference/layout/ledger_rows.h"

namespace bdlm {
namespace {

constexpr const char* too_large = "the ledger's figures exceed 2^63 - 1";

/// The product of non-negative factors.
template <class... Factors>
int64_t product(Factors... factors) {
  int64_t out = 1;
  const auto times = [&](int64_t f) { require(!__builtin_mul_overflow(out, f, &out), too_large); };
  (times(factors), ...);
  return out;
}

int64_t sum(int64_t a, int64_t b) {
  int64_t out = 0;
  require(!__builtin_add_overflow(a, b, &out), too_large);
  return out;
}

void check(const Architecture& architecture, const Sequence& sequence,
           const LedgerOptions& options) {
  check(architecture);
  require(options.ranks >= 1, "the number of ranks is ", options.ranks, "; at least 1 is needed");
  require(options.scheme != Scheme::monolithic || options.ranks == 1, "monolithic on ",
          options.ranks, " ranks; allowed is 1");
  require(options.bytes.gather >= 1 && options.bytes.scatter >= 1 && options.bytes.lse >= 1,
          "elements have ", options.bytes.gather, ", ", options.bytes.scatter, " and ",
          options.bytes.lse, " bytes; at least 1 is needed");
  if (options.scheme == Scheme::bp || options.scheme == Scheme::csbp) {
    require(static_cast<int64_t>(options.blocks_of_rank.size()) == options.ranks,
            "blocks are given for ", options.blocks_of_rank.size(), " ranks; there are ",
            options.ranks);
    check_blocks_of_rank(sequence, options.blocks_of_rank);
  }
}

LayerRule rule_of(const Architecture& architecture, const LedgerOptions& options,
                  const LayerShape& shape) {
  return {options.clean_rule.value_or(architecture.clean_rule()), shape.window};
}

/// Why there is no formula for a layer; empty if there is one.
std::string gap(const Architecture& architecture, const LayerShape& shape) {
  if (architecture.family == Family::drafter) {
    return "not covered: the traffic of drafters depends on their anchors";
  }
  if (shape.kind == LayerKind::delta) {
    return "not covered: delta layers move states and heads, not K and V rows";
  }
  return {};
}

Transfer transfer_of(const LedgerOptions& options, const LayerShape& shape) {
  if (options.scheme == Scheme::monolithic || options.scheme == Scheme::bp) {
    return Transfer::none;
  }
  return options.scheme == Scheme::csbp && shape.kind == LayerKind::sliding ? Transfer::exchange
                                                                            : Transfer::collective;
}

int64_t padded_rows(const LedgerOptions& options, int64_t length, const AttentionRole& role) {
  if (options.scheme == Scheme::csbp) {
    return csbp_padded_rows(length, options.ranks);
  }
  return role.corrupted_keys ? cp_padded_rows(length, options.ranks)
                             : cp_clean_padded_rows(length, options.ranks);
}

void fill(LedgerEntry& entry, const Architecture& architecture, const Sequence& sequence,
          const LedgerOptions& options, const AttentionRole& role) {
  entry.forward_passes = options.checkpointing == Checkpointing::full_recompute ? 2 : 1;
  entry.transfer = transfer_of(options, entry.shape);
  entry.rows_forward.assign(options.ranks, 0);
  entry.rows_backward.assign(options.ranks, 0);
  if (entry.transfer == Transfer::collective) {
    entry.padded_rows = padded_rows(options, sequence.length(), role);
    const int64_t rows = product(entry.padded_rows, options.ranks - 1);
    entry.rows_forward.assign(options.ranks, rows);
    entry.rows_backward.assign(options.ranks, rows);
  } else if (entry.transfer == Transfer::exchange) {
    HaloRows halo = count_halo(sequence, rule_of(architecture, options, entry.shape),
                               options.blocks_of_rank, role.clean_queries, role.corrupted_queries);
    entry.rows_forward = std::move(halo.sent);
    // Gradients of received rows go back to their owners.
    entry.rows_backward = std::move(halo.received);
  }
  const int64_t elements = entry.shape.kv_elements();
  for (int64_t r = 0; r < options.ranks; ++r) {
    entry.bytes_forward.push_back(product(entry.rows_forward[r], elements, options.bytes.gather));
    entry.bytes_backward.push_back(
        product(entry.rows_backward[r], elements, options.bytes.scatter));
  }
}

}  // namespace

const char* name(Checkpointing checkpointing) {
  switch (checkpointing) {
    case Checkpointing::full_recompute:
      return "full_recompute";
    case Checkpointing::keep_kv:
      return "keep_kv";
    case Checkpointing::none:
      return "none";
  }
  throw LogicError("no such checkpointing");
}

const char* name(Transfer transfer) {
  switch (transfer) {
    case Transfer::none:
      return "none";
    case Transfer::collective:
      return "collective";
    case Transfer::exchange:
      return "exchange";
  }
  throw LogicError("no such transfer");
}

int64_t LedgerEntry::step_bytes(int64_t rank) const {
  require(covered, "layer ", layers.front(), ", role ", role, ": ", reason);
  const int64_t passes = sum(product(forward_passes, bytes_forward[rank]), bytes_backward[rank]);
  return product(static_cast<int64_t>(layers.size()), passes);
}

bool Ledger::complete() const {
  return std::all_of(entries.begin(), entries.end(),
                     [](const LedgerEntry& entry) { return entry.covered; });
}

int64_t Ledger::bytes_of_rank(int64_t rank) const {
  require(0 <= rank && rank < options.ranks, "rank is ", rank, "; allowed is 0 to ",
          options.ranks - 1);
  int64_t bytes = 0;
  for (const LedgerEntry& entry : entries) {
    bytes = sum(bytes, entry.step_bytes(rank));
  }
  return bytes;
}

int64_t Ledger::total_bytes() const {
  int64_t bytes = 0;
  for (int64_t r = 0; r < options.ranks; ++r) {
    bytes = sum(bytes, bytes_of_rank(r));
  }
  return bytes;
}

double Ledger::mean_gib() const {
  return static_cast<double>(total_bytes()) / static_cast<double>(options.ranks) * 0x1p-30;
}

Ledger make_ledger(const Architecture& architecture, const Sequence& sequence,
                   const LedgerOptions& options) {
  check(architecture, sequence, options);
  Ledger ledger;
  ledger.options = options;
  for (const AttentionRole& role : architecture.roles()) {
    const size_t first = ledger.entries.size();
    for (int64_t l = 0; l < architecture.layer_count(); ++l) {
      const LayerShape& shape = architecture.layers[l];
      const auto like =
          std::find_if(ledger.entries.begin() + static_cast<int64_t>(first), ledger.entries.end(),
                       [&](const LedgerEntry& e) { return e.shape == shape; });
      if (like != ledger.entries.end()) {
        like->layers.push_back(l);
        continue;
      }
      LedgerEntry entry;
      entry.role = role.name;
      entry.layers = {l};
      entry.shape = shape;
      entry.reason = gap(architecture, shape);
      entry.covered = entry.reason.empty();
      if (entry.covered) {
        fill(entry, architecture, sequence, options, role);
      }
      ledger.entries.push_back(std::move(entry));
    }
  }
  return ledger;
}

std::vector<AttentionMemory> attention_memory(const Architecture& architecture,
                                              const Sequence& sequence,
                                              const LedgerOptions& options, int64_t layer,
                                              const AttentionRole& role) {
  check(architecture, sequence, options);
  require(0 <= layer && layer < architecture.layer_count(), "layer is ", layer,
          "; allowed is 0 to ", architecture.layer_count() - 1);
  const LayerShape& shape = architecture.layers[layer];
  const std::string missing = gap(architecture, shape);
  require(missing.empty(), "layer ", layer, ", role ", role.name, ": ", missing);

  const int64_t length = sequence.length();
  const int64_t ranks = options.ranks;
  const ElementBytes& bytes = options.bytes;
  const Transfer transfer = transfer_of(options, shape);
  HaloRows halo;
  if (transfer == Transfer::exchange) {
    halo = count_halo(sequence, rule_of(architecture, options, shape), options.blocks_of_rank,
                      role.clean_queries, role.corrupted_queries);
  }
  const int64_t q_row = product(shape.q_heads, shape.head_dim, bytes.gather);
  const int64_t kv_row = product(shape.kv_elements(), bytes.gather);
  const int64_t lse_row = product(shape.q_heads, bytes.lse);

  std::vector<AttentionMemory> out;
  for (int64_t r = 0; r < ranks; ++r) {
    int64_t clean = length;
    int64_t corrupted = length;
    int64_t prefix = 0;
    if (options.scheme == Scheme::cp) {
      corrupted = chunk_rows(length, ranks, r);
      clean = chunk_rows(length, ranks, ranks - 1 - r);
    } else if (options.scheme == Scheme::bp || options.scheme == Scheme::csbp) {
      corrupted = 0;
      for (const int64_t b : options.blocks_of_rank[r]) {
        corrupted += sequence.block(b).size();
        prefix = std::max(prefix, sequence.block(b).begin);
      }
      clean = chunk_rows(length, 2 * ranks, r) + chunk_rows(length, 2 * ranks, 2 * ranks - 1 - r);
    }
    AttentionMemory memory;
    if (options.scheme == Scheme::bp) {
      clean = 0;
      memory.replicated = product(prefix, kv_row);
      if (role.clean_queries) {
        memory.replicated = sum(memory.replicated, product(prefix, 2 * q_row + lse_row));
      }
    }
    const int64_t queries =
        (role.clean_queries ? clean : 0) + (role.corrupted_queries ? corrupted : 0);
    const int64_t keys = clean + (role.corrupted_keys ? corrupted : 0);
    memory.q = memory.o = product(queries, q_row);
    memory.lse = product(queries, lse_row);
    memory.kv = product(keys, kv_row);
    const int64_t others = transfer == Transfer::collective
                               ? product(ranks, padded_rows(options, length, role))
                           : transfer == Transfer::exchange ? halo.received[r]
                                                            : 0;
    memory.gathered = product(others, kv_row);
    memory.gathered_gradients = product(others, shape.kv_elements(), bytes.scatter);
    out.push_back(memory);
  }
  return out;
}

}  // namespace bdlm
