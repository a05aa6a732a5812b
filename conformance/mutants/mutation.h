#pragma once
// Judging the judge: the suite's own cases over mutants.

#include <string>
#include <vector>

#include "conformance/mutants/mutant.h"
#include "conformance/suites/suite.h"

namespace bdlm {

/// What one tier said against a mutant.
struct Kill {
  std::string tier;
  /// The case that failed, its verdict, reason and detail.
  std::string id;
  Verdict verdict = Verdict::pass;
  Reason reason = Reason::none;
  std::string diagnosis;
};

struct MutantResult {
  std::string name;
  std::string kind;
  std::string what;
  /// At most one a tier, cheapest tier first. Empty: the mutant survived.
  std::vector<Kill> kills;
  /// The cases that ran.
  int64_t cases = 0;
};

/// The choice of cases that every mutant is given, cheapest tier first: three ranks under every
/// scheme, a few shapes, the data and steps without which some class of fault could not show.
std::vector<SuiteCase> mutation_cases();

/// Runs the cases until a tier has killed the mutant, or with `every_tier` until each tier has had
/// its say. Cases without a step are left out where the fault is around attention: what they run
/// is right. In a tier the first FAIL counts, or where there is none the first CRASH or TIMEOUT.
MutantResult judge_mutant(const Mutant& mutant, const std::vector<SuiteCase>& cases,
                          bool every_tier);

/// One JSON document, ending with a newline:
///
///     { "format": "bdlm-mutation-1", "commit", "device", "versions": {},
///       "summary": { "faults": n, "killed", "cases" },
///       "faults": [ { "name", "class", "what", "killed_by": [tier, ...], "verdict", "reason",
///                     "case", "diagnosis", "kills": [ ... ] }, ... ] }
///
/// "verdict" to "diagnosis" are the first tier's, empty for a mutant that survived; "kills" has
/// them for each tier.
std::string mutation_report(const RunInfo& run, int64_t cases,
                            const std::vector<MutantResult>& results);

}  // namespace bdlm
