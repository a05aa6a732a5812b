#include <boost/test/unit_test.hpp>

#include "conformance/suites/suite_test_support.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(step_backend_suite)

namespace {

// Wrong steps are among the mutants of the plug-in (backend_mutants_test.cc).
BOOST_AUTO_TEST_CASE(right_code_passes) {
  const std::unique_ptr<Backend> backend = Backend::load(BDLM_CPU_PLUGIN);
  const std::vector<CaseResult> results = run_all(step_backend_cases({}), *backend);
  BOOST_TEST(results.size() > 40u);
  BOOST_TEST(complaints(results) == "", complaints(results));
}

// A backend without the entry is UNSUPPORTED, as declared.
BOOST_AUTO_TEST_CASE(missing_entry) {
  const std::unique_ptr<Backend> right = Backend::load(BDLM_CPU_PLUGIN);
  bdlm_backend entries = right->entries();
  entries.step = nullptr;
  const std::unique_ptr<Backend> without = Backend::of(entries);
  const CaseResult r = run_case(step_backend_cases({}).front(), *without);
  BOOST_TEST((r.verdict == Verdict::unsupported && r.reason == Reason::null_entry), r.detail);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
