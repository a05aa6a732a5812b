#include "conformance/judge/decomposition.h"

#include "reference/base/error.h"
#include "reference/layout/ownership.h"

namespace bdlm {
namespace {

constexpr Stream both_streams[] = {Stream::clean, Stream::corrupted};

Decomposition nobody(const Sequence& sequence, int ranks) {
  Decomposition d;
  d.sequence = sequence;
  d.ranks = ranks;
  for (int s = 0; s < 2; ++s) {
    d.row_rank[s].assign(sequence.length(), -1);
    d.parts[s].resize(sequence.length());
  }
  return d;
}

/// Parts become 0, 1, ... without gaps.
void renumber(std::vector<KeyPart>& parts) {
  int64_t next = -1;
  int64_t last = -1;
  for (KeyPart& part : parts) {
    if (part.part != last) {
      last = part.part;
      ++next;
    }
    part.part = next;
  }
}

/// Throws unless the parts of a row are exactly what it sees.
void check_parts(const Decomposition& d, const LayerRule& rule, Stream query, int64_t row) {
  for (const Stream key : both_streams) {
    std::vector<Interval> attended;
    int64_t pairs = 0;
    for (const KeyPart& part : d.parts_of(query, row)) {
      if (part.stream == key) {
        attended.push_back(part.keys);
        pairs += part.keys.size();
      }
    }
    const IntervalSet set = unite(attended);
    const Interval seen = visible(d.sequence, rule, query, row, key);
    require(set == unite({seen}) && size(set) == pairs, name(query), " row ", row,
            " of the programs attends ", pairs, " ", name(key), " keys",
            set.empty() ? "" : join(" in ", Interval{set.front().begin, set.back().end}),
            "; it sees exactly ", seen);
  }
}

/// The streams whose rows `shards` hold.
void mark(Decomposition& d, const RowSet& rows, GradientReturn how) {
  for (const Segment& segment : rows.segments()) {
    d.gradient_return[static_cast<int>(segment.stream)] = how;
  }
}

}  // namespace

Decomposition whole(const Sequence& sequence, const LayerRule& rule) {
  return split_by_owner(sequence, rule, 1);
}

Decomposition split_by_owner(const Sequence& sequence, const LayerRule& rule, int ranks) {
  require(ranks >= 1 && ranks <= sequence.length(), "the number of ranks is ", ranks,
          "; allowed are 1 to ", sequence.length(), ", the length");
  Decomposition d = nobody(sequence, ranks);
  for (const Stream query : both_streams) {
    const int s = static_cast<int>(query);
    for (int rank = 0; rank < ranks; ++rank) {
      const Interval chunk = balanced_chunk(sequence.length(), ranks, rank);
      std::fill(d.row_rank[s].begin() + chunk.begin, d.row_rank[s].begin() + chunk.end, rank);
      for (int64_t row = 0; row < sequence.length(); ++row) {
        for (const Stream key : both_streams) {
          const Interval keys = intersect(visible(sequence, rule, query, row, key), chunk);
          if (!keys.empty()) {
            d.parts[s][row].push_back({key, keys, rank});
          }
        }
      }
    }
    for (std::vector<KeyPart>& parts : d.parts[s]) {
      renumber(parts);
    }
    d.gradient_return[s] = ranks > 1 ? GradientReturn::reduced : GradientReturn::local;
  }
  return d;
}

Decomposition of_plans(const Sequence& sequence, const LayerRule& rule,
                       std::span<const RankPlan> plans) {
  Decomposition d = nobody(sequence, static_cast<int>(plans.size()));
  for (int rank = 0; rank < d.ranks; ++rank) {
    const RankPlan& plan = plans[rank];
    ByStream<char> mine;
    for (int s = 0; s < 2; ++s) {
      mine[s].assign(sequence.length(), 0);
    }
    for (const Segment& segment : plan.rows.segments()) {
      const int s = static_cast<int>(segment.stream);
      for (int64_t row = segment.rows.begin; row < segment.rows.end; ++row) {
        if (d.row_rank[s][row] < 0) {
          d.row_rank[s][row] = rank;
          mine[s][row] = 1;
        }
      }
    }
    int64_t call = 0;
    for (const Step& step : plan.forward) {
      const auto* attend = std::get_if<Attend>(&step);
      if (attend == nullptr) {
        continue;
      }
      for (const Band& band : attend->bands) {
        const int s = static_cast<int>(band.query_stream);
        for (int64_t row = band.rows.begin; row < band.rows.end; ++row) {
          const Interval keys = band.keys_of(row);
          if (mine[s][row] != 0 && !keys.empty()) {
            d.parts[s][row].push_back({band.key_stream, keys, call});
          }
        }
      }
      ++call;
    }
    for (const Step& step : plan.backward) {
      if (const auto* reduce = std::get_if<ReduceScatter>(&step)) {
        for (const RowSet& rows : *reduce->shards) {
          mark(d, rows, GradientReturn::reduced);
        }
      } else if (const auto* back = std::get_if<ExchangeBack>(&step)) {
        for (const Message& message : back->sends) {
          mark(d, message.rows, GradientReturn::added);
        }
        for (const Message& message : back->receives) {
          mark(d, message.rows, GradientReturn::added);
        }
      }
    }
  }
  if (d.ranks == 1) {
    // A rank by itself: what others add to its gradients is not judged with it.
    d.first_rank = plans[0].rank;
    d.gradient_return = {GradientReturn::local, GradientReturn::local};
  }
  for (const Stream query : both_streams) {
    const int s = static_cast<int>(query);
    for (int64_t row = 0; row < sequence.length(); ++row) {
      renumber(d.parts[s][row]);
      if (d.row_rank[s][row] >= 0) {
        check_parts(d, rule, query, row);
      }
    }
  }
  return d;
}

}  // namespace bdlm
