#include "conformance/worker/protocol.h"

#include <boost/test/unit_test.hpp>

#include "conformance/report/write_report.h"
#include "reference/base/error.h"

using namespace bdlm;

BOOST_AUTO_TEST_SUITE(protocol)

BOOST_AUTO_TEST_CASE(messages_read_back) {
  const WorkerReady ready{"mine", "a \"device\"", builtin_contract("bf16"),
                          builtin_contract("fp32")};
  const std::string line = write_message(ready);
  BOOST_TEST(line.find('\n') == line.size() - 1);
  const auto back = std::get<WorkerReady>(parse_message(line, "w"));
  BOOST_TEST(back.backend == "mine");
  BOOST_TEST(back.about == "a \"device\"");
  BOOST_TEST((back.declared == ready.declared && back.contract == ready.contract));

  const std::string refusal = write_message(WorkerRefusal{"no \xff such\nfile"});
  BOOST_TEST(std::get<WorkerRefusal>(parse_message(refusal, "w")).error ==
             "no \xef\xbf\xbd such\nfile");

  const auto fault =
      std::get<WorkerFault>(parse_message(R"({"fault": "wrote to q", "guard": true})", "w"));
  BOOST_TEST((fault.did == "wrote to q" && fault.guard));

  CaseResult result;
  result.id = "a";
  result.tier = "T6";
  result.detail = "x";
  BOOST_TEST(json_line(std::get<CaseResult>(parse_message(json_line(result), "w"))) ==
             json_line(result));
}

BOOST_AUTO_TEST_CASE(what_is_none_is_refused) {
  for (const char* line :
       {"", "{", "[]", "3", "{}", R"({"ready": "x"})", R"({"refusal": 3})",
        R"({"refusal": "x", "more": 1})", R"({"fault": "x"})", R"({"fault": "x", "guard": 1})"}) {
    BOOST_CHECK_THROW(parse_message(line, "w"), Error);
  }
}

BOOST_AUTO_TEST_SUITE_END()
