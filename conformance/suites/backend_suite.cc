#include "conformance/suites/backend_suite.h"

#include <algorithm>
#include <chrono>

#include "conformance/report/case_id.h"
#include "conformance/suites/backend_failure.h"
#include "reference/base/error.h"

namespace bdlm {
namespace {

template <class T>
bool chosen(const std::vector<T>& list, const T& value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

std::vector<BackendCase> backend_cases(const Selection& selection) {
  static const std::vector<std::string> tiers{"T1", "T4", "T5", "T6", "T7"};
  for (const std::string& tier : selection.tiers) {
    require(std::find(tiers.begin(), tiers.end(), tier) != tiers.end(), "unknown tier '", tier,
            "'; a backend is judged by T1, T4, T5, T6, T7");
  }
  std::vector<BackendCase> out;
  std::string example;
  for (const auto make : {probe_cases, merge_cases, cross_entropy_cases, statistical_cases}) {
    for (BackendCase& c : make(selection)) {
      example = c.id;
      if (chosen(selection.tiers, c.tier) && chosen(selection.schemes, c.scheme) &&
          chosen(selection.ranks, c.ranks) && glob_match(selection.ids, c.id)) {
        out.push_back(std::move(c));
      }
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const BackendCase& a, const BackendCase& b) { return a.tier < b.tier; });
  require(!out.empty(),
          "no case of this level, tier, scheme, ranks and id is there; ids look like ", example,
          ", and --case takes * and ?");
  return out;
}

CaseResult run_case(const BackendCase& backend_case, const Backend& backend) {
  const auto begin = std::chrono::steady_clock::now();
  CaseResult result;
  try {
    result = judged([&] { return backend_case.run(backend); });
  } catch (const std::exception& error) {
    result = {};
    result.verdict = Verdict::crash;
    result.detail = error.what();
  }
  result.id = backend_case.id;
  result.tier = backend_case.tier;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace bdlm
