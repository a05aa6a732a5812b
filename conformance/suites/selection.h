#pragma once
// A choice of cases.

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "conformance/report/report.h"
#include "conformance/suites/layout_case.h"

namespace bdlm {

/// A choice of cases; empty lists choose all.
struct Selection {
  Level level = Level::quick;
  /// A glob over ids.
  std::string ids = "*";
  std::vector<std::string> tiers;
  std::vector<Scheme> schemes;
  std::vector<int> ranks;
  /// Of a backend's cases on Gaussian data, and of its steps: each with the seeds 1 to this.
  uint64_t seeds = 1;
};

/// Whether a list of a selection chooses a value.
template <class T>
bool chosen(const std::vector<T>& list, const T& value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

/// Throws InputError unless all of the selection's tiers are among these.
void check_tiers(const Selection& selection, const std::vector<std::string>& known);

/// The error's text where nothing is selected; `example` is the id of some case.
std::string nothing_selected(const Selection& selection, const std::string& example);

/// What `judge` returns, with id, tier and the time that it took. What it throws becomes a CRASH
/// with the error's text.
CaseResult judged(const std::string& id, const std::string& tier,
                  const std::function<CaseResult()>& judge);

/// The schemes and ranks of a selection, each with its layouts.
std::vector<LayoutCase> selected_layouts(const Selection& selection);

}  // namespace bdlm
