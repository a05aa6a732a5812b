#include "conformance/suites/backend_suite.h"

#include "conformance/report/case_id.h"
#include "reference/base/error.h"

namespace bdlm {

std::vector<BackendCase> backend_cases(const Selection& selection) {
  std::vector<BackendCase> out;
  for (const auto make : {probe_cases, merge_cases, cross_entropy_cases, statistical_cases,
                          step_backend_cases, metamorphic_cases, hygiene_cases}) {
    for (BackendCase& c : make(selection)) {
      out.push_back(std::move(c));
    }
  }
  return out;
}

std::vector<BackendCase> select_backend_cases(const Selection& selection) {
  check_tiers(selection, {"T1", "T4", "T5", "T6", "T7"});
  std::vector<BackendCase> out;
  std::string example;
  for (BackendCase& c : backend_cases(selection)) {
    example = c.id;
    if (chosen(selection.tiers, c.tier) && chosen(selection.schemes, c.scheme) &&
        chosen(selection.ranks, c.ranks) && glob_match(selection.ids, c.id)) {
      out.push_back(std::move(c));
    }
  }
  require(!out.empty(), nothing_selected(selection, example));
  return out;
}

}  // namespace bdlm
