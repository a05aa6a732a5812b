#include "conformance/report/write_report.h"

#include <unistd.h>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "reference/base/error.h"

using namespace bdlm;
using boost::property_tree::ptree;

BOOST_AUTO_TEST_SUITE(write_report)

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

// One case of every verdict; the failing one with figures that JSON has no numbers for and a detail
// that has to be escaped everywhere.
std::vector<CaseResult> every_verdict() {
  std::vector<CaseResult> results;
  for (const Verdict verdict : Summary::order) {
    CaseResult result;
    result.id = join("csbp-L64-", summary_key(verdict), "-s7");
    result.tier = "T4";
    result.verdict = verdict;
    results.push_back(result);
  }
  results[0].seconds = 0.25;
  results[0].figures = {{"err_over_h", 0.1}, {"pairs", int64_t{1} << 60}};
  CaseResult& failed = results[2];
  failed.verdict = Verdict::pass;
  failed.figures = {{"max_z", nan}, {"low", -inf}, {"high", inf}, {"where", "rank 2"}};
  failed.add({"O", Verdict::pass, Reason::none, {{"lse", 1e-300}}, ""});
  failed.add({"dK", Verdict::fail, Reason::scale, {{"gain", inf}}, "<dK> & \"\x01\"\n\xff"});
  results[4].reason = Reason::null_entry;
  return results;
}

RunInfo run_info() {
  return {"0a1b2c", "none \"quoted\"", {{"compiler", "g++ 12.2.0"}}, "fp32", 0xffffffffffffffffU};
}

std::string temporary_path(const std::string& leaf) {
  return (std::filesystem::temp_directory_path() / join("bdlm-report-", ::getpid(), '-', leaf))
      .string();
}

}  // namespace

BOOST_AUTO_TEST_CASE(json_document) {
  const std::string text = json_report(run_info(), every_verdict());
  BOOST_TEST(text.back() == '\n');
  const auto document = nlohmann::json::parse(text);
  BOOST_TEST(document["format"] == "bdlm-report-1");
  BOOST_TEST(document["commit"] == "0a1b2c");
  BOOST_TEST(document["device"] == "none \"quoted\"");
  BOOST_TEST(document["versions"]["compiler"] == "g++ 12.2.0");
  BOOST_TEST(document["contract"] == "fp32");
  BOOST_TEST(document["seed"].get<uint64_t>() == 0xffffffffffffffffU);
  BOOST_TEST(document["summary"].size() == 8U);
  for (const char* key :
       {"pass", "marginal", "fail", "mistrusted", "unsupported", "skipped", "timeout", "crash"}) {
    BOOST_TEST(document["summary"][key] == 1);
  }
  const auto& cases = document["cases"];
  BOOST_TEST(cases.size() == 8U);
  BOOST_TEST(cases[0]["verdict"] == "PASS");
  BOOST_TEST(cases[0]["reason"] == "");
  BOOST_TEST(cases[0]["err_over_h"].get<double>() == 0.1);
  BOOST_TEST(cases[0]["pairs"].get<int64_t>() == int64_t{1} << 60);
  BOOST_TEST(cases[0]["seconds"].get<double>() == 0.25);
  BOOST_TEST(!cases[0].contains("reproduce"));
  BOOST_TEST(!cases[0].contains("tensors"));
  const auto& failed = cases[2];
  BOOST_TEST(failed["id"] == "csbp-L64-fail-s7");
  BOOST_TEST(failed["tier"] == "T4");
  BOOST_TEST(failed["verdict"] == "FAIL");
  BOOST_TEST(failed["reason"] == "scale");
  BOOST_TEST(failed["max_z"] == "nan");
  BOOST_TEST(failed["low"] == "-inf");
  BOOST_TEST(failed["high"] == "inf");
  BOOST_TEST(failed["where"] == "rank 2");
  BOOST_TEST(failed["detail"] == "dK: <dK> & \"\x01\"\n\xef\xbf\xbd");
  BOOST_TEST(failed["reproduce"] == "bdlm verify --case csbp-L64-fail-s7 --tier T4");
  BOOST_TEST(failed["tensors"][0]["tensor"] == "O");
  BOOST_TEST(failed["tensors"][0]["lse"].get<double>() == 1e-300);
  BOOST_TEST(failed["tensors"][1]["gain"] == "inf");
  BOOST_TEST(!cases[4].contains("reproduce"));
}

BOOST_AUTO_TEST_CASE(json_without_cases) {
  const auto document = nlohmann::json::parse(json_report({}, {}));
  BOOST_TEST(document["cases"].is_array());
  BOOST_TEST(document["versions"].is_object());
  BOOST_TEST(document["summary"]["pass"] == 0);
}

BOOST_AUTO_TEST_CASE(figures_do_not_hide_members) {
  for (const char* taken : {"verdict", "id", "detail", "tensors", "reproduce"}) {
    CaseResult result;
    result.figures = {{taken, 1.0}};
    BOOST_CHECK_THROW(json_line(result), LogicError);
  }
  CaseResult twice;
  twice.figures = {{"max_z", 1.0}, {"max_z", 2.0}};
  BOOST_CHECK_THROW(json_line(twice), LogicError);
}

// line i, parsed = cases[i] of the document
BOOST_AUTO_TEST_CASE(json_lines) {
  const auto results = every_verdict();
  const auto document = nlohmann::json::parse(json_report(run_info(), results));
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string line = json_line(results[i]);
    BOOST_TEST(line.find('\n') == line.size() - 1);
    BOOST_TEST(nlohmann::json::parse(line) == document["cases"][i]);
  }
}

BOOST_AUTO_TEST_CASE(junit) {
  for (const bool strict : {false, true}) {
    std::istringstream text(junit_report(every_verdict(), strict));
    ptree tree;
    boost::property_tree::read_xml(text, tree);
    const ptree& suite = tree.get_child("testsuites.testsuite");
    BOOST_TEST(suite.get<int>("<xmlattr>.tests") == 8);
    BOOST_TEST(suite.get<int>("<xmlattr>.failures") == (strict ? 3 : 1));
    BOOST_TEST(suite.get<int>("<xmlattr>.errors") == 2);
    BOOST_TEST(suite.get<int>("<xmlattr>.skipped") == (strict ? 1 : 3));
    std::map<std::string, ptree> cases;
    for (const auto& [tag, child] : suite) {
      if (tag == "testcase") {
        BOOST_TEST(child.get<std::string>("<xmlattr>.classname") == "T4");
        cases[child.get<std::string>("<xmlattr>.name")] = child;
      }
    }
    BOOST_TEST(cases.size() == 8U);
    const auto of = [&cases](const char* verdict) {
      return cases.at(join("csbp-L64-", verdict, "-s7"));
    };
    BOOST_TEST(of("pass").get<double>("<xmlattr>.time") == 0.25);
    BOOST_TEST(of("pass").size() == 1U);
    BOOST_TEST(of("marginal").count("system-out") == 1U);
    BOOST_TEST(of("fail").get<std::string>("failure.<xmlattr>.type") == "FAIL.scale");
    BOOST_TEST(of("fail").get<std::string>("failure.<xmlattr>.message") ==
               "FAIL scale: dK: <dK> & \"\xef\xbf\xbd\"\n\xef\xbf\xbd");
    BOOST_TEST(of("fail").get<std::string>("failure") ==
               "bdlm verify --case csbp-L64-fail-s7 --tier T4");
    BOOST_TEST(of("timeout").count("error") == 1U);
    BOOST_TEST(of("crash").count("error") == 1U);
    BOOST_TEST(of("unsupported").count("skipped") == 1U);  // its entry is NULL
    BOOST_TEST(of("skipped").count(strict ? "failure" : "skipped") == 1U);
    BOOST_TEST(of("mistrusted").count(strict ? "failure" : "skipped") == 1U);
  }
}

BOOST_AUTO_TEST_CASE(sink_file_appears_when_closed) {
  const std::string path = temporary_path("a.json");
  std::ostringstream standard_output;
  {
    ReportSink sink(path, standard_output);
    sink.write("one\n");
    sink.write("two\n");
    BOOST_TEST(!std::filesystem::exists(path));
    sink.close();
  }
  std::ifstream file(path);
  std::ostringstream contents;
  contents << file.rdbuf();
  BOOST_TEST(contents.str() == "one\ntwo\n");
  BOOST_TEST(standard_output.str().empty());
  std::filesystem::remove(path);
  {
    ReportSink abandoned(path, standard_output);
    abandoned.write("half");
  }
  BOOST_TEST(!std::filesystem::exists(path));
  BOOST_CHECK_THROW(ReportSink("/nowhere/at/all.json", standard_output), FileError);
}

BOOST_AUTO_TEST_CASE(sink_standard_output) {
  std::ostringstream standard_output;
  ReportSink sink("-", standard_output);
  sink.write("line\n");
  BOOST_TEST(standard_output.str() == "line\n");
  sink.close();
  standard_output.setstate(std::ios::badbit);
  BOOST_CHECK_THROW(sink.write("lost\n"), FileError);
  BOOST_CHECK_NO_THROW(check_report_paths({"-", "a.json", "", ""}));
  BOOST_CHECK_THROW(check_report_paths({"-", "a.json", "-"}), InputError);
  BOOST_CHECK_THROW(check_report_paths({"a.json", "./a.json"}), InputError);
  BOOST_CHECK_THROW(check_report_paths({"-", "/dev/stdout"}), InputError);
}

BOOST_AUTO_TEST_SUITE_END()
