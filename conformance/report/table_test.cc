#include "conformance/report/table.h"

#include <boost/test/unit_test.hpp>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

using namespace bdlm;

BOOST_AUTO_TEST_SUITE(table)

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

}  // namespace

// Every column of the figures ends at the same character in all lines, and has a line in the
// legend.
BOOST_AUTO_TEST_CASE(columns_line_up_and_explain_themselves) {
  std::ostringstream out;
  Table table(out, contract_columns(), 20);
  table.head();
  const std::vector<std::string> head = lines_of(out.str());
  const std::string& heads = head.back();
  for (const Column& column : contract_columns()) {
    BOOST_TEST(heads.find(column.title) != std::string::npos);
    BOOST_TEST(out.str().find("# " + column.title) != std::string::npos);
  }
  out.str("");
  CaseResult result{"csbp-L64-s7", "T4", Verdict::pass, Reason::none, {}, "", {}, {}};
  result.add({"O", Verdict::pass, Reason::none, {{"err_over_h", 0.25}, {"max_z", 4}}, ""});
  result.add({"\xce\xb4",
              Verdict::pass,
              Reason::none,
              {{"err_over_h", 12345678.0}, {"lse", -1.5e-300}},
              ""});
  table.row(result);
  const std::vector<std::string> rows = lines_of(out.str());
  BOOST_REQUIRE(rows.size() == 2U);
  const size_t err_end = heads.find("err/H") + 5;
  BOOST_TEST(rows[0].substr(0, err_end).ends_with(" 0.25"));
  BOOST_TEST(rows[1].substr(0, err_end + 1).ends_with(" 1.23e+07"));  // one more byte than columns
  BOOST_TEST(rows[0].substr(0, heads.find("max z") + 5).ends_with(" 4"));
  BOOST_TEST(rows[0].substr(0, heads.find("RMS z") + 5).ends_with(" -"));
  BOOST_TEST(rows[1].substr(0, heads.find("LSE") + 4).ends_with(" -1.5e-300"));
  BOOST_TEST(rows[0].substr(heads.find("verdict")) == "PASS");
}

BOOST_AUTO_TEST_CASE(failures_say_how_to_run_them_again) {
  std::ostringstream out;
  Table table(out, {{"max_z", "max z", "", 6}}, 12);
  table.row({"cp-s1",
             "T6",
             Verdict::fail,
             Reason::guard,
             {{"max_z", std::numeric_limits<double>::quiet_NaN()}},
             "byte 3\nof dK",
             {},
             {}});
  table.row({"cp-s2", "T6", Verdict::skipped, Reason::none, {}, "no GPU", {}, {}});
  const std::vector<std::string> lines = lines_of(out.str());
  BOOST_REQUIRE(lines.size() == 3U);
  BOOST_TEST(lines[0] == "cp-s1        T6   -           nan  FAIL guard  byte 3\\nof dK");
  BOOST_TEST(lines[1] == "  rerun: bdlm verify --case cp-s1 --tier T6");
  BOOST_TEST(lines[2] == "cp-s2        T6   -             -  SKIPPED  no GPU");
  out.str("");
  Table strict(out, {}, 12, true);
  strict.row({"cp-s2", "T6", Verdict::skipped, Reason::none, {}, "no GPU", {}, {}});
  BOOST_TEST(lines_of(out.str()).back() == "  rerun: bdlm verify --case cp-s2 --tier T6");
}

// A case that is worse than its tensors has a line of its own.
BOOST_AUTO_TEST_CASE(verdict_of_the_case_is_never_hidden) {
  std::ostringstream out;
  Table table(out, {}, 8);
  CaseResult result{"cp-s1", "T6", Verdict::pass, Reason::none, {}, "", {}, {}};
  result.add({"O", Verdict::pass, Reason::none, {}, ""});
  result.verdict = Verdict::fail;
  result.reason = Reason::bitwise;
  table.row(result);
  const std::vector<std::string> lines = lines_of(out.str());
  BOOST_REQUIRE(lines.size() == 3U);
  BOOST_TEST(lines[0] == "cp-s1    T6   -         FAIL bitwise");
  BOOST_TEST(lines[1] == "cp-s1    T6   O         PASS");
}

BOOST_AUTO_TEST_CASE(foot) {
  std::ostringstream out;
  Table table(out, {});
  Summary summary;
  summary.add(Verdict::pass);
  summary.add(Verdict::pass);
  summary.add(Verdict::crash);
  table.foot(summary);
  BOOST_TEST(out.str() == "3 cases: 2 PASS 0 FAIL 1 CRASH\n");
}

BOOST_AUTO_TEST_SUITE_END()
