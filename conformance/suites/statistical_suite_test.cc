#include <boost/test/unit_test.hpp>

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

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace bdlm
