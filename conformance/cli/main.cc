// bdlm: plans, proofs and verdicts for block diffusion language models.
//
// Exit status: 0 right, 1 something judged is wrong, 2 the input is wrong or a file cannot be
// written.

#include <fcntl.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <iostream>

#include "conformance/cli/build_info.h"
#include "conformance/cli/command.h"
#include "reference/base/error.h"
#include "reference/base/output_file.h"

namespace {

using bdlm::print_error;
using bdlm::require;

/// CLI11's message, on one line.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

int run(int argc, char** argv) {
  int status = 0;
  CLI::App app("Plans, proofs and verdicts for block diffusion language models.", "bdlm");
  app.set_version_flag(
      "--version", std::string("bdlm ") + bdlm::build_version + " (" + bdlm::build_commit + ")");
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error&) { return std::string(); });
  bdlm::add_compare_command(app, status);
  bdlm::add_golden_command(app, status);
  bdlm::add_mask_command(app, status);
  bdlm::add_mutate_command(app, status);
  bdlm::add_plan_command(app, status);
  bdlm::add_prove_command(app, status);
  bdlm::add_verify_command(app, status);
  bdlm::add_worker_command(app, status);
  if (argc > 1 && argv[1][0] != '-') {
    std::string known;
    bool found = false;
    for (const CLI::App* command : app.get_subcommands({})) {
      if (!command->get_group().empty()) {
        known += (known.empty() ? "" : ", ") + command->get_name();
      }
      found = found || command->get_name() == argv[1];
    }
    require(found, "unknown command '", argv[1], "'; known are ", known);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) {
      const std::string command = argc > 1 && argv[1][0] != '-' ? std::string(" ") + argv[1] : "";
      print_error(one_line(error.what()) + "; bdlm" + command + " --help shows what there is");
      return 2;
    }
  }
  std::cout.flush();
  require<bdlm::FileError>(std::cout.good(), "standard output cannot be written");
  return status;
}

/// Removes what an interrupted run has half written, then dies of the signal.
void on_signal(int signal) {
  bdlm::OutputFile::remove_temporaries();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// Takes the place of standard streams that the caller has closed, so that no file that is opened
/// later becomes one of them. What is written to these is an error.
void occupy_closed_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (fcntl(stream, F_GETFD) < 0) {
      static_cast<void>(open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  occupy_closed_streams();
  // A limit on file sizes is an error to report, not a reason to die.
  std::signal(SIGXFSZ, SIG_IGN);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT, SIGXCPU, SIGALRM}) {
    std::signal(signal, on_signal);
  }
  try {
    return run(argc, argv);
  } catch (const bdlm::LogicError& error) {
    print_error(std::string("internal error: ") + error.what());
    return 3;
  } catch (const std::bad_alloc&) {
    print_error("out of memory; a smaller model, context or number of ranks needs less");
  } catch (const std::exception& error) {
    print_error(error.what());
  }
  return 2;
}
