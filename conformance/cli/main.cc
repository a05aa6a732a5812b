// bdlm: plans, proofs and verdicts for block diffusion language models.
//
// Exit status: 0 right, 1 something judged is wrong, 2 the input is wrong or a file cannot be
// written.

#include <algorithm>
#include <csignal>
#include <exception>
#include <iostream>

#include "conformance/cli/build_info.h"
#include "conformance/cli/command.h"
#include "reference/base/error.h"

int main(int argc, char** argv) {
  // A full disk or a closed pipe is an error to report, not a reason to die silently.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  int status = 0;
  try {
    CLI::App app("Plans, proofs and verdicts for block diffusion language models.", "bdlm");
    app.set_version_flag(
        "--version", std::string("bdlm ") + bdlm::build_version + " (" + bdlm::build_commit + ")");
    app.require_subcommand(1);
    // One line, like every other error.
    app.failure_message([](const CLI::App*, const CLI::Error& error) {
      std::string text = error.what();
      std::replace(text.begin(), text.end(), '\n', ' ');
      return "bdlm: " + text + "; bdlm --help shows what is allowed\n";
    });
    bdlm::add_mutate_command(app, status);
    bdlm::add_plan_command(app, status);
    bdlm::add_prove_command(app, status);
    bdlm::add_verify_command(app, status);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return app.exit(error) == 0 ? 0 : 2;
    }
    std::cout.flush();
    bdlm::require<bdlm::FileError>(std::cout.good(), "standard output cannot be written");
  } catch (const bdlm::LogicError& error) {
    std::cerr << "bdlm: internal error: " << error.what() << '\n';
    return 3;
  } catch (const std::bad_alloc&) {
    std::cerr << "bdlm: out of memory; a smaller model, context or number of ranks needs less\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "bdlm: " << error.what() << '\n';
    return 2;
  }
  return status;
}
