#include "reference/parallel/key_passes.h"

#include <algorithm>

#include "reference/base/error.h"

namespace bdlm {
namespace {

/// Puts `keys` of query `row` into the first pass in which the row has none yet.
void add(std::vector<std::vector<Interval>>& passes, int64_t rows, int64_t row,
         const Interval& keys) {
  for (std::vector<Interval>& pass : passes) {
    if (pass[row].empty()) {
      pass[row] = keys;
      return;
    }
  }
  passes.emplace_back(rows);
  passes.back()[row] = keys;
}

}  // namespace

std::vector<KeyPass> key_passes(std::span<const Band> bands, const RowSet& queries,
                                const RowSet& buffer) {
  std::vector<std::vector<Interval>> passes;  // each (queries.size())
  for (const Band& band : bands) {
    int64_t pairs = 0;
    require<LogicError>(queries.contains(band.query_stream, band.rows), "a band names ",
                        name(band.query_stream), " query rows ", band.rows,
                        ", which the rank does not hold");
    for (size_t s = 0; s < buffer.segments().size(); ++s) {
      const Segment& segment = buffer.segments()[s];
      if (segment.stream != band.key_stream || intersect(segment.rows, band.keys).empty()) {
        continue;
      }
      const int64_t shift = buffer.offset(s) - segment.rows.begin;
      for (int64_t row = band.rows.begin; row < band.rows.end; ++row) {
        const Interval keys = intersect(band.keys_of(row), segment.rows);
        if (!keys.empty()) {
          add(passes, queries.size(), queries.find(band.query_stream, row),
              {keys.begin + shift, keys.end + shift});
          pairs += keys.size();
        }
      }
    }
    require<LogicError>(pairs == band.pairs(), "a band of ", band.pairs(), " pairs over ",
                        name(band.key_stream), " keys ", band.keys, " finds ", pairs,
                        " of them in its buffer");
  }

  std::vector<KeyPass> out;
  for (const std::vector<Interval>& pass : passes) {
    const auto seen = [](const Interval& keys) { return !keys.empty(); };
    const auto first = std::find_if(pass.begin(), pass.end(), seen);
    const auto last = std::find_if(pass.rbegin(), pass.rend(), seen).base();
    out.push_back({{first - pass.begin(), last - pass.begin()}, {first, last}});
  }
  return out;
}

}  // namespace bdlm
