#include <boost/test/unit_test.hpp>
#include <set>

#include "conformance/suites/suite_test_support.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(metamorphic_suite)

namespace {

Selection two_ranks() {
  Selection selection;
  selection.ranks = {1, 2};
  return selection;
}

BOOST_AUTO_TEST_CASE(right_code_passes) {
  for (const char* contract : {"bf16", "fp32"}) {
    const std::vector<CaseResult> results =
        run_all(metamorphic_cases(two_ranks()), *plain(contract));
    BOOST_TEST(results.size() > 50u);
    BOOST_TEST(complaints(results) == "", contract << complaints(results));
  }
}

BOOST_AUTO_TEST_CASE(mistakes_fail) {
  const auto fails = [](const std::string& where, Reason reason, auto plant) {
    PlainFaults faults;
    plant(faults);
    const CaseResult r = first_failure(metamorphic_cases(two_ranks()), *plain("fp32", faults));
    BOOST_TEST(
        (r.verdict == Verdict::fail && r.reason == reason && r.id.find(where) != std::string::npos),
        where << ": " << r.id << ' ' << name(r.verdict) << ' ' << r.detail);
  };
  fails("hiddenkeysnan", Reason::bitwise, [](PlainFaults& f) { f.multiplies_hidden = true; });
  fails("queries", Reason::bitwise, [](PlainFaults& f) { f.dq_without_scale = true; });
  // Documents before a row's own are visible: which they are depends on their order.
  fails("documents", Reason::bound, [](PlainFaults& f) {
    f.seen = [](const PlainRow&, const PlainKeySet& set, Interval keys) {
      return set.stream == BDLM_CLEAN && set.layout.documents > 1 && !keys.empty()
                 ? Interval{0, keys.end}
                 : keys;
    };
  });
}

// A backend that takes other kernels where a key is large or no number: NaN and infinities may
// move its results within the bounds, numbers may not.
BOOST_AUTO_TEST_CASE(other_kernels_for_no_numbers) {
  const auto verdicts = [](double shift, const char* word) {
    PlainFaults faults;
    faults.shift_at_large_keys = shift;
    std::set<Verdict> out;
    for (const BackendCase& c : metamorphic_cases(two_ranks())) {
      if (c.id.find(word) != std::string::npos) {
        out.insert(run_case(c, *plain("fp32", faults)).verdict);
      }
    }
    return out;
  };
  const std::set<Verdict> pass{Verdict::pass}, marginal{Verdict::marginal}, fail{Verdict::fail};
  BOOST_TEST((verdicts(0, "hiddenkeysnan") == pass));
  BOOST_TEST((verdicts(5e-7, "hiddenkeysnan") == marginal));
  BOOST_TEST((verdicts(5e-7, "hiddenkeyslarge") == fail));
  BOOST_TEST((verdicts(1e-2, "hiddenkeysnan") == fail));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
