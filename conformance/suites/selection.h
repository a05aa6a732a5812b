#pragma once
// A choice of cases.

#include <string>
#include <vector>

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
};

/// The schemes and ranks of a selection, each with its layouts.
std::vector<LayoutCase> selected_layouts(const Selection& selection);

}  // namespace bdlm
