#include "reference/schedule/plan_calls.h"

#include <algorithm>

#include "reference/base/error.h"

namespace bdlm {
namespace {

RowSet of_stream(Stream stream, const IntervalSet& rows) {
  return stream == Stream::clean ? RowSet({}, rows) : RowSet(rows, {});
}

}  // namespace

RowSet rows_of(std::span<const Band> bands) {
  std::array<std::vector<Interval>, 2> rows;
  for (const Band& band : bands) {
    rows[static_cast<int>(band.query_stream)].push_back(band.rows);
  }
  return {unite(rows[static_cast<int>(Stream::corrupted)]),
          unite(rows[static_cast<int>(Stream::clean)])};
}

RowSet unite(const RowSet& a, const RowSet& b) {
  const auto both = [&](Stream stream) {
    std::vector<Interval> all = a.rows(stream);
    all.insert(all.end(), b.rows(stream).begin(), b.rows(stream).end());
    return unite(std::move(all));
  };
  return {both(Stream::corrupted), both(Stream::clean)};
}

RowSet subtract(const RowSet& a, const RowSet& b) {
  return {subtract(a.rows(Stream::corrupted), b.rows(Stream::corrupted)),
          subtract(a.rows(Stream::clean), b.rows(Stream::clean))};
}

std::vector<PlanCall> plan_calls(std::span<const Band> bands, const RowSet& rows,
                                 const RowSet& buffer) {
  // By stream and row: stored keys.
  std::array<std::vector<std::vector<Interval>>, 2> seen;
  std::array<RowSet, 2> keys;
  for (const Stream stream : {Stream::clean, Stream::corrupted}) {
    seen[static_cast<int>(stream)].resize(rows.size());
    keys[static_cast<int>(stream)] = of_stream(stream, buffer.rows(stream));
  }
  for (const Band& band : bands) {
    const int s = static_cast<int>(band.key_stream);
    for (int64_t row = band.rows.begin; row < band.rows.end; ++row) {
      const int64_t at = rows.find(band.query_stream, row);
      const Interval wanted = band.keys_of(row);
      if (at < 0 || wanted.empty()) {
        continue;
      }
      // Keys that lie side by side in storage are one interval, whatever lies between them in the
      // sequence.
      int64_t found = 0;
      for (size_t i = 0; i < keys[s].segments().size(); ++i) {
        const Segment& segment = keys[s].segments()[i];
        const Interval held = intersect(wanted, segment.rows);
        if (!held.empty()) {
          const int64_t shift = keys[s].offset(i) - segment.rows.begin;
          seen[s][at].push_back({held.begin + shift, held.end + shift});
          found += held.size();
        }
      }
      require<LogicError>(found == wanted.size(), name(band.query_stream), " row ", row,
                          " attends ", name(band.key_stream), " keys ", wanted,
                          ", of which its buffer lacks ", wanted.size() - found);
    }
  }
  size_t calls = 1;
  for (auto& stream : seen) {
    for (std::vector<Interval>& intervals : stream) {
      int64_t pairs = 0;
      for (const Interval& i : intervals) {
        pairs += i.size();
      }
      intervals = unite(std::move(intervals));
      require<LogicError>(size(intervals) == pairs, "a row attends ", pairs, " stored keys, ",
                          pairs - size(intervals), " of them twice");
      calls = std::max(calls, intervals.size());
    }
  }
  std::vector<PlanCall> out(calls);
  for (size_t c = 0; c < calls; ++c) {
    out[c].rows = rows;
    for (int s = 0; s < 2; ++s) {
      PlanKeys set{keys[s], std::vector<Interval>(rows.size())};
      bool any = false;
      for (int64_t row = 0; row < rows.size(); ++row) {
        if (c < seen[s][row].size()) {
          set.intervals[row] = seen[s][row][c];
          any = true;
        }
      }
      if (any) {
        out[c].keys.push_back(std::move(set));
      }
    }
  }
  return out;
}

}  // namespace bdlm
