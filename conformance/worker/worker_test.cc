// Each fault of a plug-in costs its case alone, and is named.

#include "conformance/worker/worker.h"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <thread>

#include "conformance/plugin/test_backend.h"
#include "reference/base/error.h"

using namespace bdlm;

BOOST_AUTO_TEST_SUITE(worker)

namespace {

WorkerOptions options(const std::string& mode = "serve", double timeout = 30) {
  WorkerOptions out;
  out.program = BDLM_TEST_WORKER;
  out.arguments = {"test_worker", faulty_plugin(), mode};
  out.timeout = timeout;
  return out;
}

std::string shown(const CaseResult& result) {
  return join(name(result.verdict), result.reason == Reason::none ? "" : " ", name(result.reason),
              result.detail.empty() ? "" : ": ", result.detail);
}

/// What the case of D = 12 comes to under a fault, after one that passes and before others that
/// pass.
std::string struck(const std::string& fault, double timeout = 30) {
  const Environment chosen("BDLM_FAULT", fault + "@12");
  Worker worker(options("serve", timeout));
  BOOST_TEST(shown(worker.run("attention-d8", "T6")) == "PASS");
  const CaseResult result = worker.run("attention-d12", "T6");
  BOOST_TEST(result.id == "attention-d12");
  BOOST_TEST(result.tier == "T6");
  for (const char* id : {"attention-d16", "attention-d8"}) {
    const CaseResult next = worker.run(id, "T6");
    BOOST_TEST(shown(next) == "PASS");
    BOOST_TEST(next.figures.size() == 1U);
  }
  return shown(result);
}

std::string start_error(const WorkerOptions& how) {
  try {
    Worker(how).start();
  } catch (const InputError& error) {
    return error.what();
  }
  return "started";
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_process_runs_all_cases_of_a_right_backend) {
  Worker worker(options());
  const WorkerReady& ready = worker.start();
  BOOST_TEST(ready.backend == "faulty");
  BOOST_TEST(ready.about == "plain fp32 loops on the host");
  BOOST_TEST(ready.contract.name == "example-fp32");
  for (const char* id : {"attention-d8", "attention-d12", "attention-d8"}) {
    const CaseResult result = worker.run(id, "T6");
    BOOST_TEST(shown(result) == "PASS");
    BOOST_TEST((result.seconds.has_value() && *result.seconds > 0));
  }
  BOOST_TEST(worker.starts() == 1);
  BOOST_TEST(shown(worker.run("no-such-case", "T6")) == "CRASH: the worker has no such case");
  BOOST_TEST(worker.starts() == 1);
  BOOST_TEST(worker.stop() == "");
}

// (16, 2, 12) of fp32 is 1536 bytes, a multiple of 256: the tensor ends at the inaccessible page.
BOOST_AUTO_TEST_CASE(every_fault_costs_its_case_and_is_named) {
  BOOST_TEST(struck("none") == "PASS");
  BOOST_TEST(struck("abort") == "CRASH: the worker was killed by SIGABRT");
  BOOST_TEST(struck("exit") == "CRASH: the worker ended with status 3");
  BOOST_TEST(struck("null") ==
             "CRASH: it wrote to address 0x10, which is no tensor's; the worker was killed by "
             "SIGSEGV");
  BOOST_TEST(struck("hang", 0.5) == "TIMEOUT: no answer within 0.5 seconds");
  BOOST_TEST(struck("throw") == "CRASH: thrown by the plug-in");
  BOOST_TEST(struck("print") == "PASS");
  BOOST_TEST(struck("close-files") == "CRASH: the worker ended with status 2");
  BOOST_TEST(struck("error") == "CRASH: attention returned BDLM_FAILED: out of\\nluck");
  BOOST_TEST(struck("unknown-status") == "CRASH: attention returned status 17");
  BOOST_TEST(struck("refuse") == "UNSUPPORTED: attention returned BDLM_UNSUPPORTED: no such shape");
  BOOST_TEST(struck("refuse-and-write") ==
             "FAIL guard: attention: output o was written, first at byte 0 of 1536, although the "
             "entry returned BDLM_UNSUPPORTED");
  BOOST_TEST(struck("leave-unwritten") ==
             "FAIL guard: attention: output o: 1 of 384 elements were left unwritten, first at "
             "(15, 1, 11)");
  BOOST_TEST(struck("write-input") ==
             "FAIL guard: it wrote to input q, at byte 0 of 1536; the worker was killed by "
             "SIGSEGV");
  BOOST_TEST(struck("write-array") ==
             "FAIL guard: it wrote to array intervals, at byte 8 of 256; the worker was killed by "
             "SIGSEGV");
  BOOST_TEST(struck("write-behind") ==
             "FAIL guard: it wrote behind output o, at byte 1536 of 1536; the worker was killed by "
             "SIGSEGV");
  BOOST_TEST(struck("write-far-behind") ==
             "FAIL guard: it wrote behind output o, at byte 1792 of 1536; the worker was killed by "
             "SIGSEGV");
  BOOST_TEST(struck("read-far-behind") ==
             "FAIL guard: it read behind input k, at byte 1024 of 768; the worker was killed by "
             "SIGSEGV");
  BOOST_TEST(struck("write-before") ==
             "FAIL guard: attention: bytes before output o were written, first at byte -4 of 1536");
  BOOST_TEST(struck("write-behind-workspace") ==
             "FAIL guard: attention: bytes behind workspace of the call were written, first at "
             "byte 100 of 100");
}

BOOST_AUTO_TEST_CASE(faults_on_a_device_are_compared_and_late_reads_stop) {
  const Environment on_device("BDLM_FAULT_DEVICE", "1");
  BOOST_TEST(struck("write-input") ==
             "FAIL guard: attention: input q was written, first at byte 3 of 1536");
  BOOST_TEST(struck("write-behind") ==
             "FAIL guard: attention: bytes behind output o were written, first at byte 1536 of "
             "1536");
  BOOST_TEST(struck("late-array") ==
             "FAIL guard: it read array intervals, at byte 0 of 256, after the entry had returned; "
             "the worker was killed by SIGSEGV");
}

BOOST_AUTO_TEST_CASE(several_faults_cost_a_case_each) {
  const Environment chosen("BDLM_FAULT", "abort@12,hang@16,write-input@24,exit@28");
  Worker worker(options("serve", 0.5));
  std::string all;
  for (int64_t d = 8; d <= 32; d += 4) {
    all += join(name(worker.run(join("attention-d", d), "T6").verdict), ' ');
  }
  BOOST_TEST(all == "PASS CRASH TIMEOUT PASS FAIL CRASH PASS ");
  BOOST_TEST(worker.starts() == 5);
}

BOOST_AUTO_TEST_CASE(a_backend_that_cannot_be_loaded_is_an_error) {
  WorkerOptions missing = options();
  missing.arguments[1] = "./no-such.so";
  BOOST_TEST(start_error(missing) == "plug-in ./no-such.so does not exist");
  BOOST_TEST(start_error(options()) == "started");
  {
    const Environment chosen("BDLM_FAULT", "crash-at-load");
    BOOST_TEST(start_error(options()) ==
               "the worker was killed by SIGABRT while it loaded the backend");
  }
  {
    const Environment chosen("BDLM_FAULT", "bad-version");
    BOOST_TEST(start_error(options()).find("has version 1000") != std::string::npos);
  }
  BOOST_TEST(start_error(options("half-a-line")) ==
             "the worker ended with status 7 while it loaded the backend");
  BOOST_TEST(start_error(options("no-json")).find("the worker's first answer is none: ") == 0U);
  WorkerOptions silent = options("silent");
  silent.start_timeout = 0.3;
  BOOST_TEST(start_error(silent) == "the backend was not loaded within 0.3 seconds");
  WorkerOptions nobody = options();
  nobody.program = "/no/such/program";
  BOOST_CHECK_THROW(Worker(nobody).start(), Error);
}

BOOST_AUTO_TEST_CASE(a_worker_that_dies_between_cases_is_noticed) {
  Worker worker(options());
  BOOST_TEST(shown(worker.run("attention-d8", "T6")) == "PASS");
  BOOST_REQUIRE(worker.process() > 0);
  kill(worker.process(), SIGKILL);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  BOOST_TEST(shown(worker.run("attention-d12", "T6")) ==
             "CRASH: after case attention-d8 had its answer: the worker was killed by SIGKILL");
  BOOST_TEST(shown(worker.run("attention-d12", "T6")) == "PASS");
}

BOOST_AUTO_TEST_SUITE_END()
