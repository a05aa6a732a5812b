#include "reference/layout/band.h"

namespace bdlm {
namespace {

/// Sum of the integers in [a, b).
int64_t sum_of(int64_t a, int64_t b) {
  return b <= a ? 0 : (b - a) * (a + b - 1) / 2;
}

/// Sum over i in [a, b) of min(limit, i + offset).
int64_t sum_of_min(int64_t a, int64_t b, int64_t limit, int64_t offset) {
  if (offset == Band::no_end) {
    return (b - a) * limit;
  }
  const int64_t turn = std::clamp(limit - offset, a, b);
  return sum_of(a + offset, turn + offset) + (b - turn) * limit;
}

/// Sum over i in [a, b) of max(limit, i + offset).
int64_t sum_of_max(int64_t a, int64_t b, int64_t limit, int64_t offset) {
  if (offset == Band::no_begin) {
    return (b - a) * limit;
  }
  const int64_t turn = std::clamp(limit - offset, a, b);
  return (turn - a) * limit + sum_of(turn + offset, b + offset);
}

}  // namespace

Band trim(Band band) {
  if (band.keys.empty() || band.begin_offset >= band.end_offset) {
    band.rows = {band.rows.begin, band.rows.begin};
    return band;
  }
  // Row i sees something iff i + end_offset > keys.begin and i + begin_offset < keys.end.
  if (band.end_offset != Band::no_end) {
    band.rows.begin = std::max(band.rows.begin, band.keys.begin - band.end_offset + 1);
  }
  if (band.begin_offset != Band::no_begin) {
    band.rows.end = std::min(band.rows.end, band.keys.end - band.begin_offset);
  }
  return band;
}

int64_t Band::pairs() const {
  const Band b = trim(*this);
  if (b.rows.empty()) {
    return 0;
  }
  return sum_of_min(b.rows.begin, b.rows.end, b.keys.end, b.end_offset) -
         sum_of_max(b.rows.begin, b.rows.end, b.keys.begin, b.begin_offset);
}

std::vector<Band> restrict_keys(const std::vector<Band>& bands, const IntervalSet& keys) {
  std::vector<Band> out;
  for (const Band& band : bands) {
    auto it = std::partition_point(keys.begin(), keys.end(), [&](const Interval& part) {
      return part.end <= band.keys.begin;
    });
    for (; it != keys.end() && it->begin < band.keys.end; ++it) {
      Band piece = band;
      piece.keys = intersect(band.keys, *it);
      piece = trim(piece);
      if (!piece.rows.empty()) {
        out.push_back(piece);
      }
    }
  }
  return out;
}

int64_t pairs(const std::vector<Band>& bands) {
  int64_t n = 0;
  for (const Band& band : bands) {
    n += band.pairs();
  }
  return n;
}

}  // namespace bdlm
