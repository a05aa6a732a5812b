#include "conformance/report/read_report.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "conformance/report/write_report.h"
#include "reference/base/error.h"

using namespace bdlm;

BOOST_AUTO_TEST_SUITE(read_report)

namespace {

std::string refusal(const std::string& line) {
  try {
    read_case_line(line, "worker");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_written_reads_back) {
  CaseResult result;
  result.id = "csbp-P4-s7";
  result.tier = "T4";
  // In the order of their names, in which they come back.
  result.figures = {{"a", 1.0 / 3},
                    {"b", int64_t{1} << 62},
                    {"c", "text with \"quotes\" and \n"},
                    {"d", std::numeric_limits<double>::infinity()},
                    {"e", -std::numeric_limits<double>::infinity()},
                    {"f", -0.0},
                    {"g", std::numeric_limits<double>::denorm_min()},
                    {"h", 3.0}};
  result.seconds = 0.125;
  result.add({"dK", Verdict::marginal, Reason::noise, {{"rms_z", 1.25}}, "somewhere"});
  result.add({"dV", Verdict::fail, Reason::scale, {}, ""});
  for (const Verdict verdict : Summary::order) {
    result.verdict = verdict;
    const CaseResult back = read_case_line(json_line(result), "worker");
    BOOST_TEST(back.id == result.id);
    BOOST_TEST(back.tier == result.tier);
    BOOST_TEST((back.verdict == verdict && back.reason == result.reason));
    BOOST_TEST(back.detail == result.detail);
    BOOST_TEST((back.figures == result.figures));
    BOOST_TEST(std::signbit(std::get<double>(back.figures[5].second)));
    BOOST_TEST((back.seconds == result.seconds));
    BOOST_REQUIRE(back.tensors.size() == 2U);
    BOOST_TEST(back.tensors[0].tensor == "dK");
    BOOST_TEST((back.tensors[0].figures == result.tensors[0].figures));
    BOOST_TEST(back.tensors[0].detail == "somewhere");
    BOOST_TEST((back.tensors[1].reason == Reason::scale));
    BOOST_TEST(json_line(back) == json_line(result));
  }
  result.figures = {{"x", std::nan("")}};
  const CaseResult back = read_case_line(json_line(result), "worker");
  BOOST_TEST(std::isnan(std::get<double>(back.figures[0].second)));
}

BOOST_AUTO_TEST_CASE(what_is_wrong_with_a_line_is_said) {
  const auto line = [](const std::string& rest) {
    return R"({"id": "a", "tier": "T4", "verdict": "PASS", "reason": "")" + rest + "}";
  };
  BOOST_TEST(refusal(line("")) == "accepted");
  BOOST_TEST(refusal(line(R"(, "figure": 3)")) == "accepted");
  BOOST_TEST(refusal("{\"id\": \"a\"").find("worker: ") == 0U);
  BOOST_TEST(refusal("[1]").find("worker") == 0U);
  BOOST_TEST(refusal(R"({"id": "a", "tier": "T4", "reason": ""})") ==
             "worker: key 'verdict' is missing");
  BOOST_TEST(refusal(R"({"id": "a", "tier": "T4", "verdict": "PASSED", "reason": ""})")
                 .find("worker: key 'verdict' is 'PASSED'; known are 'PASS', 'MARGINAL'") == 0U);
  BOOST_TEST(refusal(R"({"id": "a", "tier": "T4", "verdict": "FAIL", "reason": "x"})")
                 .find("worker: key 'reason' is 'x'; known are '', 'coverage'") == 0U);
  BOOST_TEST(refusal(line(R"(, "seconds": "long")")) ==
             "worker: key 'seconds' is 'long'; allowed is a number, 'nan', 'inf' or '-inf'");
  BOOST_TEST(refusal(line(R"(, "figure": [1])")) != "accepted");
  BOOST_TEST(refusal(line(R"(, "figure": 18446744073709551615)")) != "accepted");
  BOOST_TEST(refusal(line(R"(, "tensors": [{"tensor": "O"}])")) ==
             "worker: key 'tensors[0].verdict' is missing");
  BOOST_TEST(refusal(line(R"(, "tensors": [{"tensor": "O", "verdict": "PASS", "reason": "",
                             "seconds": 1}])")) ==
             "worker: key 'tensors[0].seconds' cannot be the name of a figure");
  BOOST_TEST(refusal(line(R"(, "tensors": {"tensor": "O"})")) != "accepted");
}

BOOST_AUTO_TEST_SUITE_END()
