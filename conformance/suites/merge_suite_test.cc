#include <boost/test/unit_test.hpp>

#include "conformance/suites/suite_test_support.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(merge_suite)

namespace {

BOOST_AUTO_TEST_CASE(right_code_passes) {
  for (const char* contract : {"bf16", "fp32", "f64"}) {
    const std::vector<CaseResult> results = run_all(merge_cases({}), *plain(contract));
    BOOST_TEST(results.size() > 20u);
    BOOST_TEST(complaints(results) == "", contract << complaints(results));
  }
}

BOOST_AUTO_TEST_CASE(mistakes_fail) {
  const auto fails = [](PlainMerge how, Reason reason, const std::string& where) {
    PlainFaults faults;
    faults.merge = how;
    const CaseResult r = first_failure(merge_cases({}), *plain("fp32", faults));
    BOOST_TEST((r.verdict == Verdict::fail && r.reason == reason && r.id.find(where) == 0),
               r.id << ' ' << name(r.verdict) << ' ' << name(r.reason) << ' ' << r.detail);
  };
  fails(PlainMerge::average, Reason::bound, "merge-vanishing");
  fails(PlainMerge::rounded_z, Reason::bound, "merge-");
  fails(PlainMerge::from_new_z, Reason::bound, "merge-equal");
  fails(PlainMerge::log_of_sum, Reason::bound, "merge-");
  fails(PlainMerge::reads_empty, Reason::nonfinite, "merge-emptygarbage");
  fails(PlainMerge::new_maximum_lost, Reason::bound, "merge-differences");
  fails(PlainMerge::no_maximum, Reason::nonfinite, "merge-");
  fails(PlainMerge::ignores_nan, Reason::nonfinite, "merge-nan");
  fails(PlainMerge::order_matters, Reason::bitwise, "merge-");
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
