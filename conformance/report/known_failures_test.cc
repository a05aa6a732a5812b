#include "conformance/report/known_failures.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "conformance/report/case_id.h"
#include "conformance/report/table.h"
#include "conformance/report/write_report.h"
#include "reference/base/error.h"

using namespace bdlm;

BOOST_AUTO_TEST_SUITE(known_failures)

namespace {

KnownFailures parsed(const std::string& text) {
  const Json document = parse_json(text, "known.json");
  return parse_known_failures(view(document, "known.json"));
}

std::string refusal(const std::string& text) {
  try {
    parsed(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

CaseResult result_of(const std::string& id, Verdict verdict) {
  CaseResult result;
  result.id = id;
  result.tier = "T4";
  result.verdict = verdict;
  return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_list_is_read) {
  const KnownFailures list = parsed(
      R"({"csbp-blocks1.1.9-s7": {"reason": "dK of \"3\"", "expires": "2028-02-29"},
          "b": {"expires": "2027-12-31", "reason": "x"}})");
  BOOST_TEST(list.size() == 2U);
  BOOST_TEST(list.at("csbp-blocks1.1.9-s7").reason == "dK of \"3\"");
  BOOST_TEST(list.at("csbp-blocks1.1.9-s7").expires == "2028-02-29");
  BOOST_TEST(parsed("{}").empty());
}

BOOST_AUTO_TEST_CASE(what_is_wrong_with_one_is_said) {
  BOOST_TEST(refusal("[]").find("known.json") == 0U);
  BOOST_TEST(refusal(R"({"a b": {"reason": "x", "expires": "2027-01-01"}})") ==
             "known.json: key 'a b' is no case id; ids have letters, digits, '-', '_' and '.'");
  BOOST_TEST(refusal(R"({"a": {"expires": "2027-01-01"}})") ==
             "known.json: key 'a.reason' is missing");
  BOOST_TEST(refusal(R"({"a": {"reason": "", "expires": "2027-01-01"}})") ==
             "known.json: key 'a.reason' is empty; say why it fails");
  BOOST_TEST(
      refusal(R"({"a": {"reason": "x", "expires": "2027-01-01", "by": "me"}})").find("'a.by'") !=
      std::string::npos);
  BOOST_TEST(refusal(R"({"a": 3})").find("known.json: key 'a'") == 0U);
  for (const char* day : {"2027-02-29", "2027-13-01", "2027-00-10", "2027-1-1", "27-01-01", "never",
                          "2027-01-01 ", "2027/01/01", "", "+027-01-01"}) {
    BOOST_TEST(refusal(join(R"({"a": {"reason": "x", "expires": ")", day, R"("}})")) ==
               join("known.json: key 'a.expires' is '", day,
                    "'; allowed is a day, for instance 2027-03-31"));
  }
}

BOOST_AUTO_TEST_CASE(a_listed_failure_does_not_fail_the_run_and_a_pass_does) {
  const KnownFailures list = parsed(R"({"a": {"reason": "why", "expires": "2027-03-31"}})");
  const auto state = [&](Verdict verdict, const std::string& day) {
    CaseResult result = result_of("a", verdict);
    mark_known(result, list, day);
    return result.known.state;
  };
  for (const Verdict verdict : Summary::order) {
    const bool good = verdict == Verdict::pass || verdict == Verdict::marginal;
    // Its last day is a day on which it holds.
    BOOST_TEST((state(verdict, "2027-03-31") == (good ? KnownState::passed : KnownState::known)));
    BOOST_TEST((state(verdict, "2027-04-01") == KnownState::expired));
    CaseResult other = result_of("other", verdict);
    mark_known(other, list, "2027-04-01");
    BOOST_TEST((other.known.state == KnownState::unlisted));
    BOOST_TEST(fails_run(other, true) == is_failure(verdict, Reason::none, true));
  }
  const auto status = [&](Verdict verdict, const std::string& day) {
    std::vector<CaseResult> results{result_of("a", verdict), result_of("b", Verdict::pass)};
    mark_known(results[0], list, day);
    return exit_status(results, true);
  };
  BOOST_TEST(status(Verdict::fail, "2027-01-01") == 0);
  BOOST_TEST(status(Verdict::crash, "2027-01-01") == 0);
  BOOST_TEST(status(Verdict::mistrusted, "2027-01-01") == 0);
  BOOST_TEST(status(Verdict::pass, "2027-01-01") == 1);
  BOOST_TEST(status(Verdict::fail, "2028-01-01") == 1);
  BOOST_TEST(status(Verdict::pass, "2028-01-01") == 1);
}

BOOST_AUTO_TEST_CASE(reports_say_so) {
  const KnownFailures list = parsed(R"({"a": {"reason": "why <", "expires": "2027-03-31"}})");
  std::vector<CaseResult> results{result_of("a", Verdict::fail), result_of("a", Verdict::pass),
                                  result_of("a", Verdict::crash)};
  mark_known(results[0], list, "2027-01-01");
  mark_known(results[1], list, "2027-01-01");
  mark_known(results[2], list, "2027-04-01");
  results[0].options = "--backend ./x.so";

  const auto line = nlohmann::json::parse(json_line(results[0]));
  BOOST_TEST(line["known_failure"]["state"] == "known");
  BOOST_TEST(line["known_failure"]["reason"] == "why <");
  BOOST_TEST(line["known_failure"]["expires"] == "2027-03-31");
  BOOST_TEST(line["reproduce"] == "bdlm verify --case a --tier T4 --backend ./x.so");

  const std::string junit = junit_report(results, false);
  BOOST_TEST(junit.find("tests=\"3\" failures=\"2\" errors=\"0\" skipped=\"1\"") !=
             std::string::npos);
  BOOST_TEST(junit.find("<skipped message=\"FAIL (known failure until 2027-03-31: why &lt;)\"/>") !=
             std::string::npos);
  BOOST_TEST(junit.find("message=\"PASS (listed as a known failure, but it passes; take it off the "
                        "list: why &lt;)\"") != std::string::npos);
  BOOST_TEST(junit.find("message=\"CRASH (listed as a known failure until 2027-03-31, which is "
                        "over: why &lt;)\"") != std::string::npos);

  std::ostringstream out;
  Table table(out, {}, 8);
  table.row(results[0]);
  BOOST_TEST(out.str().find("  known failure until 2027-03-31: why <\n") != std::string::npos);
  BOOST_TEST(out.str().find("rerun") == std::string::npos);
  table.row(results[1]);
  BOOST_TEST(out.str().find("rerun: bdlm verify --case a --tier T4\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(today_is_a_day) {
  BOOST_TEST(today().size() == 10U);
  BOOST_TEST(today() > "2026-01-01");
  BOOST_TEST(refusal(join(R"({"a": {"reason": "x", "expires": ")", today(), R"("}})")) ==
             "accepted");
}

BOOST_AUTO_TEST_SUITE_END()
