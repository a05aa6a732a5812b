#include "conformance/suites/selection.h"

#include <chrono>

#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {

void check_tiers(const Selection& selection, const std::vector<std::string>& known) {
  for (const std::string& tier : selection.tiers) {
    require(chosen(known, tier), "unknown tier '", printable(tier), "'; known are ", listed(known));
  }
}

std::string nothing_selected(const Selection& selection, const std::string& example) {
  return join("no case of these tiers, schemes and ranks has an id that matches '",
              printable(selection.ids), "'; ids look like ", example,
              ", a glob takes * ? [a-f] [!a-f], and --list shows the ids of a level");
}

CaseResult judged(const std::string& id, const std::string& tier,
                  const std::function<CaseResult()>& judge) {
  const auto begin = std::chrono::steady_clock::now();
  CaseResult result;
  try {
    result = judge();
  } catch (const std::exception& error) {
    result = {};
    result.verdict = Verdict::crash;
    result.detail = error.what();
  }
  result.id = id;
  result.tier = tier;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

std::vector<LayoutCase> selected_layouts(const Selection& selection) {
  std::vector<LayoutCase> out;
  for (const int ranks : selection.ranks.empty() ? rank_counts(selection.level) : selection.ranks) {
    require(ranks >= 1, "the number of ranks is ", ranks, "; it must be at least 1");
    for (const Scheme scheme : {Scheme::cp, Scheme::bp, Scheme::csbp}) {
      if (chosen(selection.schemes, scheme)) {
        const auto more = layout_cases(selection.level, scheme, ranks);
        out.insert(out.end(), more.begin(), more.end());
      }
    }
  }
  return out;
}

}  // namespace bdlm
