#include "conformance/suites/pair_coverage.h"

namespace bdlm {
namespace {

/// One interval of keys at the first and at the last row of a range.
struct Ends {
  Interval first;
  Interval last;
};

class StreamCheck {
 public:
  StreamCheck(const Sequence& sequence, const LayerRule& rule, const RowSet& held, Stream query,
              Stream key, const std::string& where, Violations& out)
      : sequence_(sequence),
        rule_(rule),
        held_(held),
        query_(query),
        key_(key),
        where_(where),
        out_(out) {}

  void run(const std::vector<Band>& bands) {
    for (const Band& band : bands) {
      if (band.query_stream == query_ && band.key_stream == key_ && !band.rows.empty()) {
        bands_.push_back(&band);
        cut_at_band(band);
      }
    }
    std::sort(bands_.begin(), bands_.end(),
              [](const Band* a, const Band* b) { return a->rows.begin < b->rows.begin; });
    for (const Interval& rows : held_.rows(query_)) {
      cut_at_mask(rows);
    }
    std::sort(cuts_.begin(), cuts_.end());
    cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());

    std::vector<const Band*> active;
    size_t next = 0;
    for (size_t i = 0; i + 1 < cuts_.size(); ++i) {
      const Interval range{cuts_[i], cuts_[i + 1]};
      std::erase_if(active, [&](const Band* band) { return band->rows.end <= range.begin; });
      for (; next < bands_.size() && bands_[next]->rows.begin <= range.begin; ++next) {
        active.push_back(bands_[next]);
      }
      check_range(range, active);
    }
  }

 private:
  /// The rows where an interval of the band starts, stops, or changes how it moves.
  void cut_at_band(const Band& band) {
    const auto cut = [&](int64_t row) {
      cuts_.push_back(std::clamp(row, band.rows.begin, band.rows.end));
    };
    cut(band.rows.begin);
    cut(band.rows.end);
    if (band.begin_offset != Band::no_begin) {
      cut(band.keys.begin - band.begin_offset);
      cut(band.keys.end - band.begin_offset);
    }
    if (band.end_offset != Band::no_end) {
      cut(band.keys.begin - band.end_offset);
      cut(band.keys.end - band.end_offset);
    }
  }

  /// The rows of `rows` where the mask's interval changes how it moves.
  void cut_at_mask(const Interval& rows) {
    const auto cut = [&](int64_t row) { cuts_.push_back(std::clamp(row, rows.begin, rows.end)); };
    cut(rows.begin);
    cut(rows.end);
    for (const Interval& document : sequence_.documents()) {
      if (!intersect(document, rows).empty()) {
        cut(document.begin);
        cut(document.end);
        cut(document.begin + rule_.window - 1);
      }
    }
    if (query_ == Stream::corrupted || rule_.clean == CleanRule::block_causal) {
      for (int64_t b = sequence_.block_of(rows.begin);
           b < sequence_.blocks() && sequence_.block(b).begin < rows.end; ++b) {
        cut(sequence_.block(b).begin);
      }
    }
  }

  void check_range(const Interval& range, const std::vector<const Band*>& active) {
    const int64_t first = range.begin;
    const int64_t last = range.end - 1;
    std::vector<Ends>& found = found_;
    found.clear();
    for (const Band* band : active) {
      const Ends ends{band->keys_of(first), band->keys_of(last)};
      if (!ends.first.empty() || !ends.last.empty()) {
        found.push_back(ends);
      }
    }
    if (found.empty() && !held_.contains(query_, range)) {
      return;
    }
    if (!held_.contains(query_, range)) {
      out_.add(where_, ": ", name(query_), " rows ", range, " are attended but not held");
      return;
    }
    std::sort(found.begin(), found.end(),
              [](const Ends& a, const Ends& b) { return a.first.begin < b.first.begin; });
    const Ends expected{visible(sequence_, rule_, query_, first, key_),
                        visible(sequence_, rule_, query_, last, key_)};
    if (!tiles(found, expected)) {
      std::ostringstream got;
      for (const Ends& ends : found) {
        got << ends.first;
      }
      out_.add(where_, ": ", name(query_), " row ", first, " (of ", range, ") must see the ",
               name(key_), " keys ", expected.first, " once, but the steps give it ",
               found.empty() ? "none" : got.str());
    }
  }

  /// Whether the found intervals, end to end, are the expected one, on both rows.
  static bool tiles(const std::vector<Ends>& found, const Ends& expected) {
    if (found.empty()) {
      return expected.first.empty() && expected.last.empty();
    }
    int64_t first = expected.first.begin;
    int64_t last = expected.last.begin;
    for (const Ends& ends : found) {
      if (ends.first.begin != first || ends.last.begin != last || ends.first.empty() ||
          ends.last.empty()) {
        return false;
      }
      first = ends.first.end;
      last = ends.last.end;
    }
    return first == expected.first.end && last == expected.last.end;
  }

  const Sequence& sequence_;
  const LayerRule& rule_;
  const RowSet& held_;
  const Stream query_;
  const Stream key_;
  const std::string& where_;
  Violations& out_;
  std::vector<const Band*> bands_;
  std::vector<int64_t> cuts_;
  std::vector<Ends> found_;
};

}  // namespace

void check_pairs(const Sequence& sequence, const LayerRule& rule, const RowSet& held,
                 const std::vector<Band>& bands, const std::string& where, Violations& out) {
  for (const Stream query : {Stream::corrupted, Stream::clean}) {
    for (const Stream key : {Stream::corrupted, Stream::clean}) {
      StreamCheck(sequence, rule, held, query, key, where, out).run(bands);
    }
  }
}

}  // namespace bdlm
