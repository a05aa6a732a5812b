#include "conformance/mutants/mutation.h"

#include <boost/test/unit_test.hpp>
#include <map>
#include <set>

namespace bdlm {
BOOST_AUTO_TEST_SUITE(mutants)

namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

/// Every mutant's kills, for tests that look at them.
std::map<std::string, MutantResult> judged(const std::vector<Mutant>& mutants) {
  const std::vector<SuiteCase> cases = mutation_cases();
  std::map<std::string, MutantResult> out;
  for (const Mutant& mutant : mutants) {
    out[mutant.name] = judge_mutant(mutant, cases, false);
  }
  return out;
}

/// Requires that each mutant is killed by FAIL, first by the tier that `tier_of` expects.
template <class TierOf>
void check_kills(const std::vector<Mutant>& mutants, const TierOf& tier_of) {
  for (const auto& [mutant, result] : judged(mutants)) {
    BOOST_REQUIRE_MESSAGE(!result.kills.empty(), mutant << " survives");
    const Kill& kill = result.kills.front();
    BOOST_TEST_INFO(mutant << ": " << kill.id << ": " << kill.diagnosis);
    BOOST_TEST(kill.tier == tier_of(mutant));
    BOOST_TEST((kill.verdict == Verdict::fail));
    BOOST_TEST(!kill.diagnosis.empty());
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(names_are_unique_and_plain) {
  std::set<std::string> names;
  for (const Mutant& mutant : all_mutants()) {
    BOOST_TEST(std::all_of(mutant.name.begin(), mutant.name.end(), is_word));
    BOOST_TEST(names.insert(mutant.name).second);
    BOOST_TEST(!mutant.kind.empty());
    BOOST_TEST(!mutant.what.empty());
  }
  BOOST_TEST(names.size() >= 70u);
}

// With no fault every chosen case passes, so that a kill is the fault's doing.
BOOST_AUTO_TEST_CASE(right_code_passes) {
  for (const SuiteCase& c : mutation_cases()) {
    const CaseResult result = run_case(c);
    BOOST_TEST((result.verdict == Verdict::pass), c.id << ": " << result.detail);
  }
}

// Wrong plans show as integers, before anything is computed.
BOOST_AUTO_TEST_CASE(coverage_kills_plans) {
  std::vector<Mutant> plans = mask_mutants();
  for (Mutant& mutant : transfer_mutants()) {
    plans.push_back(std::move(mutant));
  }
  check_kills(plans, [](const std::string&) { return "T0"; });
}

// Right plans, wrong numbers: rationals differ.
BOOST_AUTO_TEST_CASE(rationals_kill_engines) {
  check_kills(engine_mutants(), [](const std::string&) { return "T2"; });
}

// Attention is right, and the step is not.
BOOST_AUTO_TEST_CASE(steps_are_killed_by_the_whole_step) {
  check_kills(step_mutants(), [](const std::string&) { return "T3"; });
}

// A mutant is judged by the tiers that come after its first kill only where all are asked for.
BOOST_AUTO_TEST_CASE(later_tiers_see_wrong_plans_too) {
  const std::vector<SuiteCase> cases = mutation_cases();
  for (const Mutant& mutant : mask_mutants()) {
    if (mutant.name == "own-clean-block-visible" || mutant.name == "one-row-misses-one-key") {
      const MutantResult result = judge_mutant(mutant, cases, true);
      BOOST_REQUIRE(result.kills.size() == 3u);
      BOOST_TEST(result.kills[1].tier == "T2");
      BOOST_TEST(result.kills[2].tier == "T3");
      BOOST_TEST(judge_mutant(mutant, cases, false).kills.size() == 1u);
    }
  }
}

BOOST_AUTO_TEST_CASE(report_names_what_killed) {
  const std::vector<SuiteCase> cases = mutation_cases();
  const std::string text =
      mutation_report({}, 7,
                      {{"a-fault",
                        "some class",
                        "goes wrong",
                        {{"T0", "id", Verdict::fail, Reason::coverage, "row 3"}},
                        1},
                       {"another", "some class", "goes wrong too", {}, 1}});
  for (const char* part :
       {R"("faults": 2)", R"("killed": 1)", R"("cases": 7)", R"("name": "a-fault")",
        R"("class": "some class")", R"("reason": "coverage")", R"("diagnosis": "row 3")",
        R"("killed_by": [])"}) {
    BOOST_TEST(text.find(part) != std::string::npos, part);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
