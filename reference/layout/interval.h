#pragma once
// Half-open integer intervals and sets of them.

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <vector>

namespace bdlm {

/// `[begin, end)`; empty when `end <= begin`.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return std::max<int64_t>(0, end - begin); }
  bool empty() const { return end <= begin; }
  bool contains(int64_t x) const { return begin <= x && x < end; }
  bool contains(const Interval& o) const { return o.empty() || (begin <= o.begin && o.end <= end); }
  friend bool operator==(const Interval&, const Interval&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Interval& i) {
    return out << '[' << i.begin << ',' << i.end << ')';
  }
};

inline Interval intersect(const Interval& a, const Interval& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

/// Sorted, disjoint, non-adjacent, non-empty intervals.
using IntervalSet = std::vector<Interval>;

/// The union of any intervals, in canonical form.
inline IntervalSet unite(std::vector<Interval> parts) {
  std::erase_if(parts, [](const Interval& i) { return i.empty(); });
  std::sort(parts.begin(), parts.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  IntervalSet out;
  for (const Interval& part : parts) {
    if (!out.empty() && part.begin <= out.back().end) {
      out.back().end = std::max(out.back().end, part.end);
    } else {
      out.push_back(part);
    }
  }
  return out;
}

/// The points of `a` that are not in `b`; both in canonical form, and so is the result.
inline IntervalSet subtract(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet out;
  auto cut = b.begin();
  for (Interval rest : a) {
    while (cut != b.end() && cut->end <= rest.begin) {
      ++cut;
    }
    for (auto it = cut; it != b.end() && it->begin < rest.end; ++it) {
      if (it->begin > rest.begin) {
        out.push_back({rest.begin, it->begin});
      }
      rest.begin = std::max(rest.begin, it->end);
    }
    if (!rest.empty()) {
      out.push_back(rest);
    }
  }
  return out;
}

/// The points in both; both in canonical form, and so is the result.
inline IntervalSet intersect(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet out;
  auto i = a.begin();
  auto j = b.begin();
  while (i != a.end() && j != b.end()) {
    const Interval both = intersect(*i, *j);
    if (!both.empty()) {
      out.push_back(both);
    }
    (i->end < j->end ? i : j)++;
  }
  return out;
}

inline int64_t size(const IntervalSet& set) {
  int64_t n = 0;
  for (const Interval& i : set) {
    n += i.size();
  }
  return n;
}

}  // namespace bdlm
