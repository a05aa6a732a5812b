// bdlm worker: what bdlm verify --backend starts. Not for people.

#include <fcntl.h>

#include "conformance/cli/command.h"
#include "conformance/cli/embedded_backends.h"
#include "conformance/cli/options.h"
#include "conformance/cli/verify_options.h"
#include "conformance/suites/backend_suite.h"
#include "conformance/worker/serve.h"
#include "reference/base/error.h"

namespace bdlm {
namespace {

constexpr int results_file = 3;

int work(const VerifyOptions& options) {
  require(fcntl(results_file, F_GETFD) >= 0,
          "bdlm worker is started by bdlm verify --backend, with a place for results");
  WorkerTask task;
  task.load = [&] { return find_backend(options.backend); };
  if (!options.contract.empty()) {
    task.contract = find_contract(options.contract);
  }
  task.cases = backend_cases(selection_of(options));
  return serve(results_file, task);
}

}  // namespace

void add_worker_command(CLI::App& app, int& status) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand("worker", "Run the cases of a backend for bdlm verify");
  command->group("");  // not in the help
  add_text(*command, "--backend", options->backend, "A backend")->required();
  add_text(*command, "--contract", options->contract, "Judge by this contract");
  add_text(*command, "--level", options->level, "As in verify");
  add_words(*command, "--scheme", options->schemes, "As in verify");
  add_integers(*command, "--ranks", options->ranks, 1, 1024, "As in verify");
  add_integer(*command, "--seeds", options->seeds, 1, 1000000, "As in verify");
  command->callback([options, &status] { status = work(*options); });
}

}  // namespace bdlm
