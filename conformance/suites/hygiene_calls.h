#pragma once
// Calls whose results may not depend on how they are made: the subjects of T6.

#include <functional>
#include <string>
#include <vector>

#include "conformance/plugin/calls.h"
#include "conformance/suites/same_bits.h"

namespace bdlm {

/// An entry, or a whole layer, on fixed data.
struct HygieneSubject {
  std::string name;
  /// Throws BackendFailure where a call fails.
  std::function<NamedResults(const Backend&, const CallOptions&)> run;
};

/// Attention of two ranks under CSBP (states, partial and final calls), the same with documents and
/// a window, merges, cross-entropy.
const std::vector<HygieneSubject>& hygiene_subjects();

/// Every row of a sequence on its keys, in one call; the cotangent, too.
struct WholeCall {
  AttentionCall call;
  std::vector<double> d_o;
};
WholeCall whole_call(const Sequence& sequence, const LayerRule& rule, const AttentionShape& shape,
                     const Contract& contract, uint64_t seed);

/// Forward and backward of it. `before_entry` is called right before each entry.
NamedResults run_whole(const Backend& backend, const WholeCall& whole, const CallOptions& options,
                       const std::function<void()>& before_entry = {});

}  // namespace bdlm
