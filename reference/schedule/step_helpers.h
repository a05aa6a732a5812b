#pragma once
// Small things that the plan builders share.

#include <vector>

#include "reference/layout/band.h"
#include "reference/schedule/step.h"

namespace bdlm {

inline std::vector<Band> concatenate(std::vector<Band> a, const std::vector<Band>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Appends a computing step unless it has nothing to do.
template <class ComputeStep>
void append(std::vector<Step>& steps, ComputeStep step) {
  if (!step.bands.empty()) {
    steps.push_back(std::move(step));
  }
}

}  // namespace bdlm
