#include "reference/layout/visibility.h"

namespace bdlm {

const char* name(CleanRule rule) {
  return rule == CleanRule::block_causal ? "block-causal" : "token-causal";
}

Interval visible(const Sequence& sequence, const LayerRule& rule, Stream query, int64_t row,
                 Stream key) {
  const Interval nothing{row, row};
  const Interval document = sequence.document_of(row);
  if (document.empty() || (query == Stream::clean && key == Stream::corrupted)) {
    return nothing;
  }
  const Interval block = sequence.block(sequence.block_of(row));
  if (query == Stream::corrupted) {
    if (key == Stream::corrupted) {
      return block;
    }
    const int64_t begin = rule.window == 0
                              ? document.begin
                              : std::max(document.begin, block.begin - (rule.window - 1));
    return {begin, block.begin};
  }
  const int64_t begin =
      rule.window == 0 ? document.begin : std::max(document.begin, row + 1 - rule.window);
  return {begin, rule.clean == CleanRule::block_causal ? block.end : row + 1};
}

std::vector<Band> visible_bands(const Sequence& sequence, const LayerRule& rule, Stream query,
                                const Interval& rows, Stream key) {
  std::vector<Band> bands;
  if (query == Stream::clean && key == Stream::corrupted) {
    return bands;
  }
  const bool by_token = query == Stream::clean && rule.clean == CleanRule::token_causal;
  const int64_t window_offset = rule.window == 0 ? Band::no_begin : 1 - rule.window;
  const auto add = [&](Band band) {
    band = trim(band);
    if (!band.rows.empty()) {
      bands.push_back(band);
    }
  };
  const auto& documents = sequence.documents();
  auto document = std::partition_point(documents.begin(), documents.end(),
                                       [&](const Interval& d) { return d.end <= rows.begin; });
  for (; document != documents.end() && document->begin < rows.end; ++document) {
    const Interval mine = intersect(rows, *document);
    if (by_token) {
      add({query, mine, key, *document, window_offset, 1});
      continue;
    }
    for (int64_t b = sequence.block_of(mine.begin);
         b < sequence.blocks() && sequence.block(b).begin < mine.end; ++b) {
      const Interval block = sequence.block(b);
      const Interval part = intersect(mine, block);
      if (query == Stream::clean) {
        add({query, part, key, {document->begin, block.end}, window_offset, Band::no_end});
      } else {
        // The same keys for every row of the block.
        add({query, part, key, visible(sequence, rule, query, part.begin, key)});
      }
    }
  }
  return bands;
}

}  // namespace bdlm
