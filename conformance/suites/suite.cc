#include "conformance/suites/suite.h"

#include <algorithm>
#include <chrono>

#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

template <class T>
bool chosen(const std::vector<T>& list, const T& value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

std::vector<SuiteCase> select_cases(const Selection& selection) {
  static const std::vector<std::string> tiers{"T0", "T2", "T3"};
  for (const std::string& tier : selection.tiers) {
    require(std::find(tiers.begin(), tiers.end(), tier) != tiers.end(), "unknown tier '", tier,
            "'; known are T0, T2, T3");
  }
  std::vector<SuiteCase> out;
  std::string example;
  const auto add = [&](const char* tier, auto make) {
    if (!chosen<std::string>(selection.tiers, tier)) {
      return;
    }
    for (SuiteCase& c : make(selection)) {
      example = c.id;
      if (chosen(selection.schemes, c.scheme) && chosen(selection.ranks, c.ranks) &&
          glob_match(selection.ids, c.id)) {
        out.push_back(std::move(c));
      }
    }
  };
  add("T0", coverage_cases);
  add("T2", exact_cases);
  add("T3", double_cases);
  add("T3", step_cases);
  require(!out.empty(), "no case of these tiers, schemes and ranks has an id that matches '",
          printable(selection.ids), "'; ids look like ", example,
          ", a glob takes * ? [a-f] [!a-f], and --list shows the ids of a level");
  return out;
}

CaseResult run_case(const SuiteCase& suite_case, const Subject& subject) {
  const auto begin = std::chrono::steady_clock::now();
  CaseResult result;
  try {
    result = suite_case.run(subject);
  } catch (const std::exception& error) {
    result = {};
    result.verdict = Verdict::crash;
    result.detail = error.what();
  }
  result.id = suite_case.id;
  result.tier = suite_case.tier;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace bdlm
