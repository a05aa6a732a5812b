#pragma once
// What the subcommands of `bdlm` share.

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "conformance/report/report.h"
#include "reference/layout/ownership.h"

namespace bdlm {

/// Registers a subcommand. Its callback sets `status`, the exit status of the program: 0 right, 1
/// something judged is wrong. Errors are thrown; main prints them and exits with 2.
void add_mutate_command(CLI::App& app, int& status);
void add_plan_command(CLI::App& app, int& status);
void add_prove_command(CLI::App& app, int& status);
void add_verify_command(CLI::App& app, int& status);
void add_worker_command(CLI::App& app, int& status);

/// What `--scheme a,b` names; "all" is every scheme of `all`. Throws InputError.
std::vector<Scheme> parse_schemes(const std::vector<std::string>& names,
                                  const std::vector<Scheme>& all);

/// Documents as `--documents 0:5,5:16` gives them: half-open intervals of positions. Throws
/// InputError on anything that is not of this form; whether they fit the sequence is the sequence's
/// to say.
std::vector<Interval> parse_documents(const std::vector<std::string>& texts);

/// Prints an error on one line. Of the processes that mpirun started only the first one prints.
void print_error(const std::string& text);

/// This build and machine, for reports.
RunInfo run_info(uint64_t seed);

/// Progress on standard error, at most a few lines a second where it is a terminal and one in ten
/// seconds elsewhere.
class Progress {
 public:
  explicit Progress(bool shown);
  ~Progress();
  /// Replaces the line shown before.
  void show(const std::string& text);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace bdlm
