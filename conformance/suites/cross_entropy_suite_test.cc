#include <boost/test/unit_test.hpp>

#include "conformance/suites/suite_test_support.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(cross_entropy_suite)

namespace {

BOOST_AUTO_TEST_CASE(right_code_passes) {
  for (const char* contract : {"bf16", "fp32", "f64"}) {
    const std::vector<CaseResult> results = run_all(cross_entropy_cases({}), *plain(contract));
    BOOST_TEST(results.size() >= 10u);
    BOOST_TEST(complaints(results) == "", contract << complaints(results));
  }
}

BOOST_AUTO_TEST_CASE(mistakes_fail) {
  for (const char* contract : {"bf16", "fp32"}) {
    const auto fails = [&](bool PlainFaults::*fault, const std::string& where) {
      PlainFaults faults;
      faults.*fault = true;
      const CaseResult r = first_failure(cross_entropy_cases({}), *plain(contract, faults));
      BOOST_TEST((r.verdict == Verdict::fail && r.id.find("crossentropy-" + where) == 0),
                 where << ": " << r.id << ' ' << name(r.verdict) << ' ' << name(r.reason) << ' '
                       << r.detail);
    };
    fails(&PlainFaults::upstream_ignored, "");
    fails(&PlainFaults::first_weight_only, "");
    fails(&PlainFaults::label_shifted, "");
    fails(&PlainFaults::chunk_means, "");
    fails(&PlainFaults::counts_ignored_rows, "");
    fails(&PlainFaults::reads_ignored_rows, "");
    fails(&PlainFaults::keeps_excluded, "");
    fails(&PlainFaults::softcap_after_exclusion, "");
    fails(&PlainFaults::no_softcap_gradient, "");
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
