#pragma once
// Which rows of the two streams some storage holds, and where.

#include <cstdint>
#include <vector>

#include "reference/layout/band.h"

namespace bdlm {

/// A run of rows of one stream.
struct Segment {
  Stream stream = Stream::clean;
  Interval rows;
  friend bool operator==(const Segment&, const Segment&) = default;
};

/// Rows in storage order: the segments one after another. No row occurs twice.
class RowSet {
 public:
  RowSet() = default;
  /// Takes corrupted rows, then clean rows, each ascending.
  RowSet(const IntervalSet& corrupted, const IntervalSet& clean);

  const std::vector<Segment>& segments() const { return segments_; }
  /// The storage index of the first row of segment `s`.
  int64_t offset(size_t s) const { return offsets_[s]; }
  /// The number of rows.
  int64_t size() const { return size_; }
  /// The rows of one stream, in canonical form.
  const IntervalSet& rows(Stream stream) const {
    return stream == Stream::clean ? clean_ : corrupted_;
  }
  /// The storage index of a row, or -1 if it is not held.
  int64_t find(Stream stream, int64_t row) const;
  /// Whether all these rows are held.
  bool contains(Stream stream, const Interval& rows) const;

 private:
  IntervalSet corrupted_, clean_;
  std::vector<Segment> segments_;
  std::vector<int64_t> offsets_;
  int64_t size_ = 0;
};

}  // namespace bdlm
