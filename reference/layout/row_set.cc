#include "reference/layout/row_set.h"

namespace bdlm {

RowSet::RowSet(const IntervalSet& corrupted, const IntervalSet& clean)
    : corrupted_(corrupted), clean_(clean) {
  for (const Stream stream : {Stream::corrupted, Stream::clean}) {
    for (const Interval& part : rows(stream)) {
      segments_.push_back({stream, part});
      offsets_.push_back(size_);
      size_ += part.size();
    }
  }
}

int64_t RowSet::find(Stream stream, int64_t row) const {
  const IntervalSet& parts = rows(stream);
  const auto it = std::partition_point(parts.begin(), parts.end(),
                                       [&](const Interval& part) { return part.end <= row; });
  if (it == parts.end() || row < it->begin) {
    return -1;
  }
  // Clean segments are stored behind the corrupted ones.
  const size_t first = stream == Stream::clean ? corrupted_.size() : 0;
  const size_t segment = first + static_cast<size_t>(it - parts.begin());
  return offsets_[segment] + (row - it->begin);
}

bool RowSet::contains(Stream stream, const Interval& wanted) const {
  if (wanted.empty()) {
    return true;
  }
  const IntervalSet& parts = rows(stream);
  const auto it = std::partition_point(
      parts.begin(), parts.end(), [&](const Interval& part) { return part.end <= wanted.begin; });
  return it != parts.end() && it->contains(wanted);
}

}  // namespace bdlm
