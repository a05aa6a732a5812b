#include "conformance/suites/selection.h"

#include <algorithm>

#include "reference/base/error.h"

namespace bdlm {

std::vector<LayoutCase> selected_layouts(const Selection& selection) {
  std::vector<LayoutCase> out;
  for (const int ranks : selection.ranks.empty() ? rank_counts(selection.level) : selection.ranks) {
    require(ranks >= 1, "the number of ranks is ", ranks, "; it must be at least 1");
    for (const Scheme scheme : {Scheme::cp, Scheme::bp, Scheme::csbp}) {
      const auto& chosen = selection.schemes;
      if (chosen.empty() || std::find(chosen.begin(), chosen.end(), scheme) != chosen.end()) {
        const auto more = layout_cases(selection.level, scheme, ranks);
        out.insert(out.end(), more.begin(), more.end());
      }
    }
  }
  return out;
}

}  // namespace bdlm
