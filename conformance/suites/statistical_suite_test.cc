#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>
#include <string>

#include "conformance/suites/suite_test_support.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(statistical_suite)

namespace {

Selection few() {
  Selection selection;
  selection.ranks = {1, 3};
  return selection;
}

BOOST_AUTO_TEST_CASE(right_code_passes) {
  for (const char* contract : {"bf16", "fp32", "f64"}) {
    const auto backend = plain(contract);
    const std::vector<CaseResult> results = run_all(statistical_cases(few()), *backend);
    BOOST_TEST(results.size() > 40u);
    BOOST_TEST(complaints(results) == "", contract << complaints(results));
  }
}

BOOST_AUTO_TEST_CASE(each_seed_is_a_case) {
  Selection three = few();
  three.seeds = 3;
  const auto gauss = [](const Selection& selection) {
    std::set<std::string> ids;
    for (const BackendCase& c : statistical_cases(selection)) {
      if (c.id.find("-gauss-") != std::string::npos) {
        ids.insert(c.id);
      }
    }
    return ids;
  };
  const std::set<std::string> one = gauss(few());
  const std::set<std::string> all = gauss(three);
  BOOST_TEST(!one.empty());
  BOOST_TEST(all.size() == 3 * one.size());
  BOOST_TEST(std::includes(all.begin(), all.end(), one.begin(), one.end()));
}

BOOST_AUTO_TEST_CASE(mistakes_fail) {
  const auto fails = [](const char* contract, Reason reason, auto plant) {
    PlainFaults faults;
    plant(faults);
    const CaseResult r = first_failure(statistical_cases(few()), *plain(contract, faults));
    // On scores of 1e4 a wrong dQ, which is nearly 0, may read as a factor.
    const bool named = r.reason == reason || r.reason == Reason::bound || r.reason == Reason::scale;
    BOOST_TEST((r.verdict == Verdict::fail && named),
               r.id << ' ' << name(r.verdict) << ' ' << name(r.reason) << ' ' << r.detail);
  };
  for (const char* contract : {"bf16", "fp32"}) {
    fails(contract, Reason::bound, [](PlainFaults& f) {
      // One row of one head's keys.
      f.seen = [](const PlainRow& row, const PlainKeySet&, Interval keys) {
        return row.position == 17 && keys.size() > 1 ? Interval{keys.begin + 1, keys.end} : keys;
      };
    });
    fails(contract, Reason::bound, [](PlainFaults& f) { f.merge = PlainMerge::average; });
    fails(contract, Reason::bound, [](PlainFaults& f) { f.local_delta = true; });
    fails(contract, Reason::scale, [](PlainFaults& f) { f.local_lse = true; });
  }
  fails("bf16", Reason::scale, [](PlainFaults& f) { f.rounding = Rounding::truncate; });
  fails("fp32", Reason::bound, [](PlainFaults& f) { f.state_in_bf16 = true; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
