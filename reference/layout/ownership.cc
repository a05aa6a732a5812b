#include "reference/layout/ownership.h"

#include <array>
#include <numeric>

#include "reference/base/error.h"

namespace bdlm {
namespace {

constexpr std::array<Scheme, 4> schemes{Scheme::monolithic, Scheme::cp, Scheme::bp, Scheme::csbp};
constexpr std::array<BlockAssignment, 3> assignments{
    BlockAssignment::dual_end, BlockAssignment::contiguous, BlockAssignment::balanced};

template <class Values>
auto parse(std::string_view text, const Values& values, const char* what) {
  std::string known;
  for (const auto& value : values) {
    if (text == name(value)) {
      return value;
    }
    known += join(known.empty() ? "" : ", ", name(value));
  }
  throw InputError(join("unknown ", what, " '", text, "'; known are ", known));
}

/// The rank with the smallest load, the lowest of equals.
template <class Load>
int least_loaded(const std::vector<Load>& load) {
  return static_cast<int>(std::min_element(load.begin(), load.end()) - load.begin());
}

using Assigned = std::vector<std::vector<int64_t>>;

Assigned dual_end(const Sequence& sequence, int ranks) {
  const int64_t blocks = sequence.blocks();
  Assigned out(ranks);
  std::vector<int64_t> load(ranks, 0);
  const auto give = [&](int64_t block, int rank) {
    out[rank].push_back(block);
    load[rank] += sequence.block(block).size();
  };
  if ((blocks + 1) / 2 < ranks) {
    for (int64_t b = blocks - 1; b >= 0; --b) {
      give(b, least_loaded(load));
    }
    return out;
  }
  const int64_t pairs = blocks / 2;
  for (int rank = 0; rank < ranks; ++rank) {
    const Interval mine = balanced_chunk(pairs, ranks, rank);
    for (int64_t i = mine.begin; i < mine.end; ++i) {
      give(i, rank);
      give(blocks - 1 - i, rank);
    }
  }
  if (blocks % 2 == 1) {
    give(pairs, least_loaded(load));
  }
  return out;
}

IntervalSet zigzag(int64_t length, int ranks, int rank) {
  return unite({balanced_chunk(length, 2 * static_cast<int64_t>(ranks), rank),
                balanced_chunk(length, 2 * static_cast<int64_t>(ranks), 2 * ranks - 1 - rank)});
}

/// Each mask once, with the number of layers that have it.
std::vector<std::pair<LayerRule, int64_t>> distinct(const std::vector<LayerRule>& rules) {
  std::vector<std::pair<LayerRule, int64_t>> out;
  for (const LayerRule& rule : rules) {
    const auto it =
        std::find_if(out.begin(), out.end(), [&](const auto& r) { return r.first == rule; });
    if (it == out.end()) {
      out.emplace_back(rule, 1);
    } else {
      ++it->second;
    }
  }
  return out.empty() ? std::vector<std::pair<LayerRule, int64_t>>{{LayerRule{}, 1}} : out;
}

/// Attended pairs of the corrupted rows of each block, and of the clean rows of each prefix that
/// ends at a block's start, all layers together. In double: a load is compared, not reported.
struct Costs {
  std::vector<double> block;   // (B)
  std::vector<double> prefix;  // (B)
};

double clean_cost(const Sequence& sequence, const std::vector<LayerRule>& rules,
                  const Interval& rows) {
  double cost = 0;
  for (const auto& [rule, layers] : distinct(rules)) {
    cost += static_cast<double>(layers) * static_cast<double>(pairs(visible_bands(
                                              sequence, rule, Stream::clean, rows, Stream::clean)));
  }
  return cost;
}

Costs costs_of(const Sequence& sequence, const std::vector<LayerRule>& rules) {
  Costs costs{std::vector<double>(sequence.blocks(), 0), std::vector<double>(sequence.blocks(), 0)};
  for (int64_t b = 0; b < sequence.blocks(); ++b) {
    const Interval block = sequence.block(b);
    for (const auto& [rule, layers] : distinct(rules)) {
      for (const Stream key : {Stream::corrupted, Stream::clean}) {
        costs.block[b] += static_cast<double>(layers) * static_cast<double>(block.size()) *
                          static_cast<double>(
                              visible(sequence, rule, Stream::corrupted, block.begin, key).size());
      }
    }
    if (b + 1 < sequence.blocks()) {
      costs.prefix[b + 1] = costs.prefix[b] + clean_cost(sequence, rules, block);
    }
  }
  return costs;
}

/// The largest load of a rank: its blocks, and its clean rows: given under CSBP, under BP the
/// prefix of its last block.
double largest_load(const Assigned& assigned, const Costs& costs, Scheme scheme,
                    const std::vector<double>& clean) {
  double most = 0;
  for (size_t r = 0; r < assigned.size(); ++r) {
    double load = clean[r];
    int64_t last = 0;
    for (const int64_t b : assigned[r]) {
      load += costs.block[b];
      last = std::max(last, b);
    }
    most = std::max(most, load + (scheme == Scheme::bp ? costs.prefix[last] : 0));
  }
  return most;
}

Assigned balanced(const Sequence& sequence, Scheme scheme, int ranks,
                  const std::vector<LayerRule>& rules) {
  const Costs costs = costs_of(sequence, rules);
  std::vector<double> clean(ranks, 0);
  for (int r = 0; r < ranks && scheme == Scheme::csbp; ++r) {
    for (const Interval& part : zigzag(sequence.length(), ranks, r)) {
      clean[r] += clean_cost(sequence, rules, part);
    }
  }
  std::vector<int64_t> order(costs.block.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return costs.block[a] > costs.block[b]; });
  Assigned out(ranks);
  std::vector<double> load = clean;
  int64_t left = sequence.blocks();
  int without = ranks;
  for (const int64_t block : order) {
    int to = least_loaded(load);
    if (left == without && !out[to].empty()) {
      // As many blocks as ranks without one: the least loaded of those.
      to = -1;
      for (int r = 0; r < ranks; ++r) {
        if (out[r].empty() && (to < 0 || load[r] < load[to])) {
          to = r;
        }
      }
    }
    without -= out[to].empty() ? 1 : 0;
    out[to].push_back(block);
    load[to] += costs.block[block];
    --left;
  }
  const Assigned paired = dual_end(sequence, ranks);
  return largest_load(out, costs, scheme, clean) < largest_load(paired, costs, scheme, clean)
             ? out
             : paired;
}

IntervalSet rows_of_blocks(const Sequence& sequence, const std::vector<int64_t>& blocks) {
  std::vector<Interval> parts;
  for (const int64_t b : blocks) {
    parts.push_back(sequence.block(b));
  }
  return unite(std::move(parts));
}

}  // namespace

const char* name(Scheme scheme) {
  switch (scheme) {
    case Scheme::monolithic:
      return "monolithic";
    case Scheme::cp:
      return "cp";
    case Scheme::bp:
      return "bp";
    case Scheme::csbp:
      return "csbp";
  }
  return "?";
}

const char* name(BlockAssignment assignment) {
  switch (assignment) {
    case BlockAssignment::dual_end:
      return "dual-end";
    case BlockAssignment::contiguous:
      return "contiguous";
    case BlockAssignment::balanced:
      return "balanced";
  }
  return "?";
}

Scheme parse_scheme(std::string_view text) {
  return parse(text, schemes, "scheme");
}

BlockAssignment parse_assignment(std::string_view text) {
  return parse(text, assignments, "block assignment");
}

Interval balanced_chunk(int64_t n, int64_t parts, int64_t c) {
  const auto start = [&](int64_t i) { return i * (n / parts) + std::min(i, n % parts); };
  return {start(c), start(c + 1)};
}

std::vector<std::vector<int64_t>> assign_blocks(const Sequence& sequence, Scheme scheme, int ranks,
                                                BlockAssignment assignment,
                                                const std::vector<LayerRule>& rules) {
  const int64_t blocks = sequence.blocks();
  require(ranks >= 1, "the number of ranks is ", ranks, "; it must be at least 1");
  require(blocks >= ranks, "the sequence has ", blocks, " blocks, fewer than the ", ranks,
          " ranks; every rank needs at least one block");
  Assigned out;
  switch (assignment) {
    case BlockAssignment::dual_end:
      out = dual_end(sequence, ranks);
      break;
    case BlockAssignment::contiguous:
      out.resize(ranks);
      for (int r = 0; r < ranks; ++r) {
        const Interval mine = balanced_chunk(blocks, ranks, r);
        out[r].resize(mine.size());
        std::iota(out[r].begin(), out[r].end(), mine.begin);
      }
      break;
    case BlockAssignment::balanced:
      out = balanced(sequence, scheme, ranks, rules);
      break;
  }
  for (auto& list : out) {
    std::sort(list.begin(), list.end());
  }
  return out;
}

Ownership divide(const Sequence& sequence, Scheme scheme, int ranks,
                 const OwnershipOptions& options) {
  require(ranks >= 1, "the number of ranks is ", ranks, "; it must be at least 1");
  const int64_t length = sequence.length();
  Ownership out{scheme, options.assignment, ranks, {}, {}, Assigned(ranks)};
  if (scheme == Scheme::monolithic) {
    require(ranks == 1, "the monolithic scheme runs on 1 rank, not on ", ranks);
    out.rows = {RowSet({{0, length}}, {{0, length}})};
    out.counted = out.rows;
    return out;
  }
  if (scheme == Scheme::cp) {
    for (int r = 0; r < ranks; ++r) {
      out.rows.emplace_back(unite({balanced_chunk(length, ranks, r)}),
                            unite({balanced_chunk(length, ranks, ranks - 1 - r)}));
    }
    out.counted = out.rows;
    return out;
  }
  out.blocks = assign_blocks(sequence, scheme, ranks, options.assignment, options.rules);
  for (int r = 0; r < ranks; ++r) {
    const IntervalSet corrupted = rows_of_blocks(sequence, out.blocks[r]);
    const IntervalSet chunks = zigzag(length, ranks, r);
    out.counted.emplace_back(corrupted, chunks);
    if (scheme == Scheme::csbp) {
      out.rows.emplace_back(corrupted, chunks);
      continue;
    }
    int64_t prefix = sequence.block(out.blocks[r].back()).begin;
    if (options.clean_loss && !chunks.empty()) {
      prefix = std::max(prefix, chunks.back().end);
    }
    out.rows.emplace_back(corrupted, unite({{0, prefix}}));
  }
  return out;
}

IntervalSet halo(const Sequence& sequence, const LayerRule& rule, const RowSet& held) {
  std::vector<Interval> seen;
  for (const Segment& segment : held.segments()) {
    for (const Band& band :
         visible_bands(sequence, rule, segment.stream, segment.rows, Stream::clean)) {
      seen.push_back({band.keys_of(band.rows.begin).begin, band.keys_of(band.rows.end - 1).end});
    }
  }
  return subtract(unite(std::move(seen)), held.rows(Stream::clean));
}

}  // namespace bdlm
