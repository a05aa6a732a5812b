#pragma once
// The worker's side: loads a backend, runs the cases that it is told, one after another.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "conformance/suites/backend_case.h"

namespace bdlm {

struct WorkerTask {
  /// Loads the backend. An Error becomes a refusal.
  std::function<std::unique_ptr<Backend>()> load;
  /// Judge by this contract in place of the declared one.
  std::optional<Contract> contract;
  std::vector<BackendCase> cases;
};

/// Reads case ids, a line each, from standard input, and writes messages (protocol.h) to the
/// descriptor `results`, until standard input ends. From then on the process's standard input is
/// empty, and what the backend prints goes to standard error. SIGSEGV and SIGBUS are first
/// reported, with what was touched. Ends the process where its parent is gone. Returns the exit
/// status. To be called once, by a process's only thread.
int serve(int results, const WorkerTask& task);

}  // namespace bdlm
