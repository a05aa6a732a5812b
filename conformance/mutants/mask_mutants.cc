// Faults in which pairs the plans visit.

#include <algorithm>
#include <optional>

#include "conformance/mutants/mutant.h"
#include "conformance/mutants/plan_edits.h"
#include "reference/schedule/plan_builder.h"

namespace bdlm {
namespace {

bool is(const Band& band, Stream query, Stream key) {
  return band.query_stream == query && band.key_stream == key;
}

/// Changes the bands of corrupted rows over clean keys that reach up to the row's block, which
/// `edit(place, band, block index)` does.
template <class Edit>
auto prefixes(const Edit& edit) {
  return [edit](const PlanSetting& s, Plans& plans) {
    edit_bands(plans, [&](const BandPlace& place, const Band& band) -> Bands {
      const int64_t block = s.sequence.block_of(band.rows.begin);
      const bool reaches = is(band, Stream::corrupted, Stream::clean) &&
                           band.keys.end == s.sequence.block(block).begin;
      return {reaches ? edit(s, place, band, block) : band};
    });
  };
}

/// Plans for another window; then the bands of one stream get the right one back.
auto wider_window(Stream right) {
  return [right](const PlanSetting& s, Plans& plans) {
    if (s.rule.window == 0) {
      return;
    }
    plans = build_plans(s.sequence, s.ownership, {s.rule.clean, s.rule.window + 1});
    edit_bands(plans, [&](const BandPlace&, Band band) -> Bands {
      if (band.key_stream == Stream::clean && band.query_stream == right) {
        if (right == Stream::clean) {
          band.begin_offset = 1 - s.rule.window;
        } else {
          const Interval seen = visible(s.sequence, s.rule, right, band.rows.begin, Stream::clean);
          band.keys = intersect(band.keys, seen);
        }
      }
      return {band};
    });
  };
}

/// Plans of another sequence under the ownership of the right one.
template <class Sequences>
auto of_sequence(const Sequences& other) {
  return [other](const PlanSetting& s, Plans& plans) {
    if (const std::optional<Sequence> wrong = other(s.sequence)) {
      plans = build_plans(*wrong, s.ownership, s.rule);
    }
  };
}

std::vector<int64_t> block_starts(const Sequence& s) {
  std::vector<int64_t> starts;
  for (int64_t b = 0; b < s.blocks(); ++b) {
    starts.push_back(s.block(b).begin);
  }
  return starts;
}

std::optional<Sequence> one_document(const Sequence& s) {
  const auto& documents = s.documents();
  return Sequence::with_blocks(s.length(), block_starts(s),
                               {{documents.front().begin, documents.back().end}});
}

std::optional<Sequence> without_padding(const Sequence& s) {
  std::vector<Interval> documents = s.documents();
  documents.back().end = s.length();
  return Sequence::with_blocks(s.length(), block_starts(s), documents);
}

/// Blocks on one grid from position 0, cut at documents.
std::optional<Sequence> one_grid(const Sequence& s) {
  int64_t size = 1;
  std::vector<int64_t> starts;
  for (int64_t b = 0; b < s.blocks(); ++b) {
    size = std::max(size, s.block(b).size());
  }
  for (int64_t at = 0; at < s.length(); at += size) {
    starts.push_back(at);
  }
  for (const Interval& document : s.documents()) {
    for (const int64_t at : {document.begin, document.end}) {
      if (at < s.length()) {
        starts.push_back(at);
      }
    }
  }
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  return Sequence::with_blocks(s.length(), starts, s.documents());
}

/// The first band of the last rank whose last row sees two keys or more.
std::optional<Band> chosen_band(const Plans& plans) {
  for (const Step& step : plans.back().forward) {
    if (const auto* attend = std::get_if<Attend>(&step)) {
      for (const Band& band : attend->bands) {
        if (band.keys_of(band.rows.end - 1).size() >= 2) {
          return band;
        }
      }
    }
  }
  return std::nullopt;
}

void lose_one_key(const PlanSetting&, Plans& plans) {
  const std::optional<Band> chosen = chosen_band(plans);
  edit_bands(plans, [&](const BandPlace& place, const Band& band) -> Bands {
    if (place.plan.rank + 1 != place.plan.ranks || !chosen || !(band == *chosen)) {
      return {band};
    }
    const int64_t last = band.rows.end - 1;
    const Interval keys = band.keys_of(last);
    Band others = band;
    others.rows.end = last;
    return {others,
            {band.query_stream, {last, last + 1}, band.key_stream, {keys.begin + 1, keys.end}}};
  });
}

void lose_backward_band(const PlanSetting&, Plans& plans) {
  const std::optional<Band> chosen = chosen_band(plans);
  edit_backward_bands(plans, [&](const BandPlace& place, const Band& band) -> Bands {
    const bool lost = place.plan.rank + 1 == place.plan.ranks && chosen && band == *chosen;
    return lost ? Bands{} : Bands{band};
  });
}

/// Clean rows also see the corrupted rows of their block, where the rank holds both.
void show_corrupted_rows(const PlanSetting&, Plans& plans) {
  edit_bands(plans, [](const BandPlace& place, const Band& band) -> Bands {
    Band leak = band;
    leak.query_stream = Stream::clean;
    const bool possible = is(band, Stream::corrupted, Stream::corrupted) &&
                          place.plan.rows.contains(Stream::clean, band.rows);
    return possible ? Bands{band, leak} : Bands{band};
  });
}

}  // namespace

std::vector<Mutant> mask_mutants() {
  const auto own_block = [](const PlanSetting& s, const BandPlace& place, const Band& band,
                            int64_t block) {
    return with_key_end(place, band, s.sequence.block(block).end);
  };
  const auto one_late = [](const PlanSetting&, const BandPlace& place, const Band& band, int64_t) {
    return with_key_end(place, band, band.keys.end + 1);
  };
  const auto one_short = [](const PlanSetting&, const BandPlace&, Band band, int64_t) {
    --band.keys.end;
    return band;
  };
  const auto previous_hidden = [](const PlanSetting& s, const BandPlace&, Band band,
                                  int64_t block) {
    band.keys.end = std::min(band.keys.end, s.sequence.block(block - 1).begin);
    return band;
  };
  return {
      plan_mutant("own-clean-block-visible", "visibility",
                  "a corrupted row sees the clean tokens of its own block, which it should predict",
                  prefixes(own_block)),
      plan_mutant("prefix-ends-one-key-late", "visibility",
                  "a corrupted row sees the first clean token of its own block",
                  prefixes(one_late)),
      plan_mutant("prefix-ends-one-key-early", "visibility",
                  "a corrupted row misses the last clean token before its block",
                  prefixes(one_short)),
      plan_mutant("previous-block-hidden", "visibility",
                  "a corrupted row sees the clean blocks up to the one before the previous",
                  prefixes(previous_hidden)),
      plan_mutant("corrupted-block-causal", "visibility",
                  "a corrupted row sees its block up to itself instead of in both directions",
                  [](const PlanSetting&, Plans& plans) {
                    edit_bands(plans, [](const BandPlace&, Band band) -> Bands {
                      if (is(band, Stream::corrupted, Stream::corrupted)) {
                        band.end_offset = 1;
                      }
                      return {band};
                    });
                  }),
      plan_mutant("clean-rows-see-corrupted", "visibility",
                  "a clean row sees the corrupted rows of its block", show_corrupted_rows),
      plan_mutant(
          "clean-rule-swapped", "visibility",
          "clean rows are token-causal where they should be block-causal, and the other way",
          [](const PlanSetting& s, Plans& plans) {
            const bool by_block = s.rule.clean == CleanRule::block_causal;
            plans = build_plans(
                s.sequence, s.ownership,
                {by_block ? CleanRule::token_causal : CleanRule::block_causal, s.rule.window});
          }),
      plan_mutant("clean-row-misses-itself", "visibility",
                  "a token-causal clean row sees the tokens before it but not itself",
                  [](const PlanSetting&, Plans& plans) {
                    edit_bands(plans, [](const BandPlace&, Band band) -> Bands {
                      if (is(band, Stream::clean, Stream::clean) && band.end_offset == 1) {
                        band.end_offset = 0;
                      }
                      return {band};
                    });
                  }),
      plan_mutant("corrupted-window-one-wider", "window bound",
                  "a window of w gives a corrupted row w clean keys instead of w - 1",
                  wider_window(Stream::clean)),
      plan_mutant("clean-window-one-wider", "window bound",
                  "a window of w gives a clean row w keys besides itself instead of w - 1",
                  wider_window(Stream::corrupted)),
      plan_mutant("corrupted-block-windowed", "window bound",
                  "the window also cuts a corrupted row off from the start of its own block",
                  [](const PlanSetting& s, Plans& plans) {
                    edit_bands(plans, [&](const BandPlace&, Band band) -> Bands {
                      if (s.rule.window > 0 && is(band, Stream::corrupted, Stream::corrupted)) {
                        band.begin_offset = 1 - s.rule.window;
                      }
                      return {band};
                    });
                  }),
      plan_mutant("one-row-misses-one-key", "coverage",
                  "one row of the last rank misses one key, forward and backward", lose_one_key),
      plan_mutant("backward-skips-a-tile", "coverage",
                  "the backward of the last rank skips pairs that its forward visited",
                  lose_backward_band),
      plan_mutant("documents-ignored", "documents",
                  "rows see the documents before theirs in the same sequence",
                  of_sequence(one_document)),
      plan_mutant(
          "block-origin-not-reset", "documents",
          "blocks are counted from the start of the sequence instead of from the document's",
          of_sequence(one_grid)),
      plan_mutant("padding-attended", "padding",
                  "padding behind the last document is attended as if it were tokens",
                  of_sequence(without_padding)),
  };
}

}  // namespace bdlm
