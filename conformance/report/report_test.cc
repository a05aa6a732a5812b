#include "conformance/report/report.h"

#include <boost/test/unit_test.hpp>

using namespace bdlm;

BOOST_AUTO_TEST_SUITE(report)

// verdict(case) = max over its tensors, with the reason of the first tensor that reaches it.
BOOST_AUTO_TEST_CASE(case_takes_its_worst_tensor) {
  CaseResult result;
  result.add({"O", Verdict::pass, Reason::none, {{"max_z", 4.2}}, "fine"});
  BOOST_TEST((result.verdict == Verdict::pass));
  BOOST_TEST(result.detail.empty());
  result.add({"dQ", Verdict::marginal, Reason::noise, {}, ""});
  BOOST_TEST((result.verdict == Verdict::marginal));
  BOOST_TEST(result.detail == "dQ");
  result.add({"dK", Verdict::fail, Reason::scale, {}, "1 % too large"});
  result.add({"dV", Verdict::fail, Reason::bound, {}, ""});
  result.add({"z", Verdict::mistrusted, Reason::none, {}, ""});
  BOOST_TEST((result.verdict == Verdict::fail));
  BOOST_TEST((result.reason == Reason::scale));
  BOOST_TEST(result.detail == "dK: 1 % too large");
  BOOST_TEST(result.tensors.size() == 5U);
}

// Σ_verdicts count = number of cases
BOOST_AUTO_TEST_CASE(summary_counts) {
  std::vector<CaseResult> results;
  for (const Verdict verdict : Summary::order) {
    // As many of each as its place in the enumeration, plus one.
    for (int i = 0; i <= static_cast<int>(verdict); ++i) {
      results.push_back({"x", "T1", verdict, Reason::none, {}, "", {}, {}});
    }
  }
  const Summary summary = summarize(results);
  for (const Verdict verdict : Summary::order) {
    BOOST_TEST(summary[verdict] == static_cast<int64_t>(verdict) + 1);
  }
  BOOST_TEST(summary.cases() == 36);
}

BOOST_AUTO_TEST_CASE(figures_by_name) {
  const Figures figures{{"max_z", 4.5}, {"wrong", 3}, {"where", "rank 2"}};
  BOOST_TEST(std::get<double>(*find_figure(figures, "max_z")) == 4.5);
  BOOST_TEST(std::get<int64_t>(*find_figure(figures, "wrong")) == 3);
  BOOST_TEST(std::get<std::string>(*find_figure(figures, "where")) == "rank 2");
  BOOST_TEST(find_figure(figures, "rms_z") == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
