// bdlm verify --backend as a user sees it: exit statuses, reports, faults, known failures.

#include <sys/wait.h>
#include <unistd.h>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "conformance/plugin/test_backend.h"
#include "conformance/report/known_failures.h"
#include "reference/base/error.h"
#include "reference/base/test_files.h"

using namespace bdlm;

namespace {

using testing::contents;

struct Outcome {
  int status = -1;
  std::string out, err;
};

/// A folder for the files of a test.
struct Folder : testing::Directory {
  Outcome run(const std::string& arguments) const {
    const std::string command =
        join("'", BDLM_PROGRAM, "' ", arguments, " >'", (path / "out").string(), "' 2>'",
             (path / "err").string(), "'");
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents((path / "out").string()),
            contents((path / "err").string())};
  }
  /// Judges the faulty plug-in.
  Outcome verify(const std::string& arguments) const {
    return run(join("verify --backend '", faulty_plugin(), "' ", arguments));
  }
  std::string write(const char* name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
};

/// A T4 case that calls attention: one that a crash of this entry costs.
const std::string& attention_case() {
  static const std::string id = [] {
    const Folder folder;
    const Environment chosen("BDLM_FAULT", "exit");
    const Outcome all = folder.verify("--tier T4 --jsonl -");
    std::istringstream lines(all.out);
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json["verdict"] == "CRASH") {
        return json["id"].get<std::string>();
      }
    }
    return std::string("no case of T4 calls attention");
  }();
  return id;
}

std::string with_case(const std::string& more) {
  return join("--tier T4 --case '", attention_case(), "' ", more);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(verify, Folder)

BOOST_AUTO_TEST_CASE(a_right_backend_passes_and_is_introduced) {
  const Outcome got = verify(with_case("-v"));
  BOOST_TEST(got.status == 0);
  BOOST_TEST(got.out.find("backend faulty (plain fp32 loops on the host), judged by the contract "
                          "example-fp32\n") == 0U);
  BOOST_TEST(got.out.find("1 cases: 1 PASS 0 FAIL\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_fault_is_named_in_every_report) {
  const Environment chosen("BDLM_FAULT", "write-input");
  const std::string json = (path / "r.json").string();
  const std::string junit = (path / "r.xml").string();
  const Outcome got =
      verify(with_case(join("--jsonl - --json '", json, "' --junit '", junit, "'")));
  BOOST_TEST(got.status == 1);
  // Standard output is one line of JSON, whatever else there is to say.
  BOOST_TEST(std::count(got.out.begin(), got.out.end(), '\n') == 1);
  const auto line = nlohmann::json::parse(got.out);
  BOOST_TEST(line["verdict"] == "FAIL");
  BOOST_TEST(line["reason"] == "guard");
  BOOST_TEST(line["detail"].get<std::string>().find("it wrote to input q, at byte ") == 0U);
  BOOST_TEST(line["reproduce"].get<std::string>().find(
                 join(" --tier T4 --backend ", faulty_plugin())) != std::string::npos);
  const auto document = nlohmann::json::parse(contents(json));
  BOOST_TEST(document["contract"] == "example-fp32");
  BOOST_TEST(document["device"] == "plain fp32 loops on the host");
  BOOST_TEST(document["versions"]["backend"] == "faulty");
  BOOST_TEST(document["summary"]["fail"] == 1);
  BOOST_TEST(document["cases"].size() == 1U);
  boost::property_tree::ptree tree;
  std::istringstream xml(contents(junit));
  boost::property_tree::read_xml(xml, tree);
  BOOST_TEST(tree.get<int>("testsuites.<xmlattr>.failures") == 1);
  BOOST_TEST(tree.get<std::string>("testsuites.testsuite.testcase.failure.<xmlattr>.type") ==
             "FAIL.guard");
}

BOOST_AUTO_TEST_CASE(what_the_backend_prints_disturbs_no_report) {
  const Environment chosen("BDLM_FAULT", "print");
  const Outcome got = verify(with_case("--json -"));
  BOOST_TEST(got.status == 0);
  BOOST_TEST(nlohmann::json::parse(got.out)["summary"]["pass"] == 1);
  BOOST_TEST(got.err.find("half a line") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_wrong_result_a_crash_a_hang_and_a_refusal_have_their_verdicts) {
  const auto verdict = [&](const char* fault, const std::string& more) {
    const Environment chosen("BDLM_FAULT", fault);
    const Outcome got = verify(with_case("--jsonl - " + more));
    const auto json = nlohmann::json::parse(got.out);
    return join(json["verdict"].get<std::string>(), ' ', json["reason"].get<std::string>(), ' ',
                got.status);
  };
  // A small case may say "bound" of a factor.
  const std::string scaled = verdict("scale", "");
  BOOST_TEST((scaled == "FAIL scale 1" || scaled == "FAIL bound 1"), scaled);
  BOOST_TEST(verdict("abort", "") == "CRASH  1");
  BOOST_TEST(verdict("hang", "--timeout 0.5") == "TIMEOUT  1");
  BOOST_TEST(verdict("refuse", "") == "UNSUPPORTED  0");
  BOOST_TEST(verdict("refuse", "--strict") == "UNSUPPORTED  1");
  BOOST_TEST(verdict("null-entry", "") == "UNSUPPORTED null_entry 0");
  // Alone it judges nothing.
  BOOST_TEST(verdict("null-entry", "--strict") == "UNSUPPORTED null_entry 1");
}

BOOST_AUTO_TEST_CASE(another_contract_is_taken_and_said) {
  const Outcome got = verify(with_case("--contract fp32 --json -"));
  BOOST_TEST(got.status == 0);
  BOOST_TEST(got.err.find("judged by the contract fp32 of --contract, in place of its own, "
                          "example-fp32\n") != std::string::npos);
  BOOST_TEST(nlohmann::json::parse(got.out)["contract"] == "fp32");
  const Outcome wrong = verify(with_case("--contract ./no-such.json"));
  BOOST_TEST(wrong.status == 2);
  BOOST_TEST(wrong.err.find("no-such.json") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(known_failures_decide_over_the_exit_status) {
  const auto status = [&](const char* fault, const std::string& day) {
    const Environment chosen("BDLM_FAULT", fault);
    const std::string list = write(
        "known.json", join("{\"", attention_case(), R"(": {"reason": "see #12", "expires": ")", day,
                           R"("}, "some-other-case": {"reason": "x", "expires": "2999-01-01"}})"));
    return verify(with_case("--known-failures '" + list + "'"));
  };
  const Outcome known = status("abort", "2999-12-31");
  BOOST_TEST(known.status == 0);
  BOOST_TEST(known.out.find("known failure until 2999-12-31: see #12\n") != std::string::npos);
  BOOST_TEST(known.out.find("known failures: 1 failed as listed, 0 passed, 0 expired, 1 not in "
                            "this run\n") != std::string::npos);
  const Outcome passed = status("none", "2999-12-31");
  BOOST_TEST(passed.status == 1);
  BOOST_TEST(passed.out.find("it passes; take it off the list: see #12") != std::string::npos);
  BOOST_TEST(status("abort", "2026-01-01").status == 1);
  BOOST_TEST(status("abort", today()).status == 0);

  const std::string broken = write("broken.json", R"({"a": {"reason": "x"}})");
  const Outcome refused = verify(with_case("--known-failures '" + broken + "'"));
  BOOST_TEST(refused.status == 2);
  BOOST_TEST(refused.err.find("key 'a.expires' is missing") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(files_have_known_failures_and_lines_that_run_again) {
  const std::string id = "merge-h1k1-d4-parts2-rows18-fp32-edges-s1";
  const std::string outputs = (path / "outputs").string();
  std::filesystem::create_directory(outputs);
  std::ofstream(join(outputs, '/', id, ".safetensors")) << "no tensors";
  const std::string arguments = join("verify --case '", id, "' --outputs '", outputs, "'");
  const Outcome got = run(arguments);
  BOOST_TEST(got.status == 1);
  BOOST_TEST(got.out.find("FAIL file ") != std::string::npos);
  BOOST_TEST(got.out.find(join("  rerun: bdlm verify --case ", id, " --outputs ", outputs, '\n')) !=
             std::string::npos);
  const std::string list =
      write("known.json", join("{\"", id, R"(": {"reason": "#12", "expires": "2999-12-31"}})"));
  BOOST_TEST(run(join(arguments, " --known-failures '", list, "'")).status == 0);
}

BOOST_AUTO_TEST_CASE(wrong_input_is_status_2) {
  const auto error = [&](const std::string& arguments) {
    const Outcome got = run(arguments);
    BOOST_TEST(got.status == 2);
    BOOST_TEST(got.out == "");
    return got.err;
  };
  BOOST_TEST(error("verify --backend ./no-such.so") ==
             "bdlm: plug-in ./no-such.so does not exist\n");
  BOOST_TEST(
      error("verify --backend nothing").find("bdlm: unknown backend 'nothing'; known are ") == 0U);
  BOOST_TEST(error("verify --tier T4") ==
             "bdlm: tier T4 judges a backend; name one with --backend\n");
  BOOST_TEST(error("verify --seeds 3") ==
             "bdlm: --seeds is of a backend; name one with --backend\n");
  BOOST_TEST(error("verify --backend x.so --seeds 0").find("--seeds is '0'") != std::string::npos);
  BOOST_TEST(error("verify --timeout 3") ==
             "bdlm: --timeout is of a backend; name one with --backend\n");
  BOOST_TEST(error("verify --contract fp32") ==
             "bdlm: --contract is of a backend; name one with --backend\n");
  for (const char* option : {"--seeds 3", "--contract fp32", "--timeout 3", "--backend cpu",
                             "--tier T4", "--ranks 2", "--shard 1/2", "--level gate", "--list"}) {
    BOOST_TEST(error(join("verify --outputs . ", option)).find(" says nothing about files; ") !=
                   std::string::npos,
               option);
  }
  BOOST_TEST(error("verify --backend x.so --timeout 0").find("--timeout is '0'") !=
             std::string::npos);
  BOOST_TEST(error("worker --backend cpu 3>&-") ==
             "bdlm: bdlm worker is started by bdlm verify --backend, with a place for results\n");
  const Environment chosen("BDLM_FAULT", "crash-at-load");
  const Outcome got = verify("");
  BOOST_TEST(got.status == 2);
  BOOST_TEST(got.err == "bdlm: the worker was killed by SIGABRT while it loaded the backend\n");
}

BOOST_AUTO_TEST_CASE(the_worker_is_no_command_for_people) {
  const Outcome help = run("--help");
  BOOST_TEST(help.status == 0);
  BOOST_TEST(help.out.find("verify") != std::string::npos);
  BOOST_TEST(help.out.find("worker") == std::string::npos);
  BOOST_TEST(run("nonsense").err.find("worker") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(shards_divide_the_cases) {
  std::multiset<std::string> whole, parts;
  const auto ids = [&](const std::string& more, std::multiset<std::string>& to) {
    const Outcome got = verify("--list " + more);
    std::istringstream lines(got.out);
    for (std::string line; std::getline(lines, line);) {
      to.insert(line);
    }
    return got.status;
  };
  BOOST_TEST(ids("", whole) == 0);
  BOOST_TEST(!whole.empty());
  const int64_t shards = whole.size() < 3 ? 1 : 3;
  for (int64_t i = 1; i <= shards; ++i) {
    BOOST_TEST(ids(join("--shard ", i, '/', shards), parts) == 0);
  }
  BOOST_TEST((whole == parts));
  BOOST_TEST(verify("--shard 1000000/1000000").status == 2);
}

BOOST_AUTO_TEST_SUITE_END()
