#include <boost/test/unit_test.hpp>

#include "conformance/report/case_id.h"
#include "conformance/suites/suite_test_support.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(hygiene_suite)

namespace {

std::vector<BackendCase> matching(const std::string& glob) {
  std::vector<BackendCase> out;
  for (BackendCase& c : hygiene_cases({})) {
    if (glob_match(glob, c.id)) {
      out.push_back(std::move(c));
    }
  }
  return out;
}

BOOST_AUTO_TEST_CASE(right_code_passes) {
  for (const char* contract : {"bf16", "fp32"}) {
    std::vector<CaseResult> results = run_all(hygiene_cases({}), *plain(contract));
    BOOST_TEST(results.size() > 30u);
    // Its work is synchronous, and its entry says so.
    std::erase_if(results, [](const CaseResult& r) { return r.reason == Reason::null_entry; });
    BOOST_TEST(complaints(results) == "", contract << complaints(results));
  }
}

BOOST_AUTO_TEST_CASE(mistakes_fail) {
  const auto fails = [](const std::string& cases, bool PlainFaults::*fault) {
    PlainFaults faults;
    faults.*fault = true;
    const CaseResult r = first_failure(matching(cases), *plain("fp32", faults));
    BOOST_TEST((r.verdict == Verdict::fail),
               cases << ": " << r.id << ' ' << name(r.verdict) << ' ' << r.detail);
  };
  fails("determinism-attention", &PlainFaults::unordered);
  fails("hygiene-attention*", &PlainFaults::alignment_matters);
  fails("order-*", &PlainFaults::stale_intervals);
  fails("offsets-*", &PlainFaults::wrapped_offsets);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
