// A worker for tests: test_worker PLUGIN MODE, with a case "attention-dD" for each head dimension D
// of 8, 12, ..., 32 that calls attention and passes where there is something to judge.

#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "conformance/plugin/calls.h"
#include "conformance/worker/line_stream.h"
#include "conformance/worker/serve.h"
#include "reference/base/philox.h"

namespace bdlm {
namespace {

CaseResult call_once(const Backend& backend, int64_t head_dim) {
  const Philox random(3);
  const IntervalSet all{{0, 16}};
  AttentionCall call;
  call.sequence = Sequence::uniform(16, 4);
  call.shape = {2, 1, head_dim};
  call.rows = RowSet({}, all);
  for (int64_t i = 0; i < 16 * 2 * head_dim; ++i) {
    call.q.push_back(random.gaussian(i));
  }
  CallKeys keys;
  keys.rows = call.rows;
  for (int64_t i = 0; i < 16 * head_dim; ++i) {
    keys.k.push_back(random.gaussian(1000000 + i));
    keys.v.push_back(random.gaussian(2000000 + i));
  }
  for (int64_t row = 0; row < 16; ++row) {
    keys.intervals.push_back(visible(call.sequence, call.rule, Stream::clean, row, Stream::clean));
  }
  call.key_sets = {keys};
  const AttentionForwardResult got = call_attention(backend, call, nullptr, Stage::final);
  if (const auto result = unjudged("attention", got.status, got.violation)) {
    return *result;
  }
  CaseResult result;
  result.figures = {{"first", got.out.o[0]}};
  return result;
}

/// What a worker that is none would say.
int misbehave(const std::string& mode, int results) {
  const auto say = [&](const std::string& text) { write_all(results, text); };
  if (mode == "silent") {
    pause();
  }
  if (mode == "no-json") {
    say("hello\n");
    pause();
  }
  if (mode == "half-a-line") {
    say(R"({"ready": "x", "about")");
    return 7;
  }
  return 9;
}

int run(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[2] : "serve";
  if (mode != "serve") {
    return misbehave(mode, 3);
  }
  WorkerTask task;
  task.load = [&] { return Backend::load(argv[1]); };
  for (int64_t head_dim = 8; head_dim <= 32; head_dim += 4) {
    BackendCase c;
    c.id = join("attention-d", head_dim);
    c.tier = "T6";
    c.run = [head_dim](const Backend& backend) { return call_once(backend, head_dim); };
    task.cases.push_back(c);
  }
  return serve(3, task);
}

}  // namespace
}  // namespace bdlm

int main(int argc, char** argv) {
  return bdlm::run(argc, argv);
}
