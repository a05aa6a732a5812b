#include "optimized/cpu/row_passes.h"

#include <algorithm>

#include "reference/base/error.h"

namespace bdlm::cpu {
namespace {

/// By query row, disjoint runs of stored keys.
using RowKeys = std::vector<std::vector<Interval>>;

/// Adds a run, joined to the row's last one where it follows at once.
void add(std::vector<Interval>& runs, const Interval& run) {
  if (!runs.empty() && runs.back().end == run.begin) {
    runs.back().end = run.end;
  } else {
    runs.push_back(run);
  }
}

void add_band(const Band& band, const RowSet& queries, const RowSet& buffer, RowKeys& keys) {
  int64_t found = 0;
  for (int64_t row = band.rows.begin; row < band.rows.end; ++row) {
    const Interval seen = band.keys_of(row);
    if (seen.empty()) {
      continue;
    }
    const int64_t stored = queries.find(band.query_stream, row);
    require<LogicError>(stored >= 0, "a band names ", name(band.query_stream), " row ", row,
                        ", which the rank does not hold");
    for (size_t s = 0; s < buffer.segments().size(); ++s) {
      const Segment& segment = buffer.segments()[s];
      const Interval part = intersect(seen, segment.rows);
      if (segment.stream == band.key_stream && !part.empty()) {
        const int64_t shift = buffer.offset(s) - segment.rows.begin;
        add(keys[stored], {part.begin + shift, part.end + shift});
        found += part.size();
      }
    }
  }
  require<LogicError>(found == band.pairs(), "a band of ", band.pairs(), " pairs over ",
                      name(band.key_stream), " keys ", band.keys, " finds ", found,
                      " of them in its buffer");
}

}  // namespace

std::vector<RowPass> row_passes(std::span<const Band> bands, const RowSet& queries,
                                const RowSet& buffer) {
  RowKeys keys(queries.size());
  for (const Band& band : bands) {
    add_band(band, queries, buffer, keys);
  }
  std::vector<RowPass> passes;
  for (size_t n = 0;; ++n) {
    const auto takes_part = [n](const std::vector<Interval>& runs) { return runs.size() > n; };
    const auto first = std::find_if(keys.begin(), keys.end(), takes_part);
    if (first == keys.end()) {
      return passes;
    }
    const auto last = std::find_if(keys.rbegin(), keys.rend(), takes_part).base();
    RowPass pass{{first - keys.begin(), last - keys.begin()}, {}};
    for (auto row = first; row != last; ++row) {
      const Interval run = takes_part(*row) ? (*row)[n] : Interval{};
      pass.intervals.push_back(run.begin);
      pass.intervals.push_back(run.end);
    }
    passes.push_back(std::move(pass));
  }
}

}  // namespace bdlm::cpu
