// bdlm verify --backend: a backend judged in worker processes.

#include <sys/types.h>

#include <iostream>
#include <memory>
#include <mutex>

#include "conformance/cli/command.h"
#include "conformance/cli/run_in_order.h"
#include "conformance/cli/verify_options.h"
#include "conformance/cli/verify_report.h"
#include "conformance/suites/backend_suite.h"
#include "conformance/worker/worker.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

constexpr double quick_timeout = 60;
constexpr double gate_timeout = 300;

std::string comma_separated(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) {
    out += join(out.empty() ? "" : ",", item);
  }
  return out;
}

/// This program again, as a worker that has the same cases.
WorkerOptions worker_options(const VerifyOptions& options) {
  WorkerOptions out;
  out.program = "/proc/self/exe";
  out.arguments = {"bdlm", "worker", "--backend", options.backend, "--level", options.level};
  if (!options.contract.empty()) {
    out.arguments.insert(out.arguments.end(), {"--contract", options.contract});
  }
  if (!options.schemes.empty()) {
    out.arguments.insert(out.arguments.end(), {"--scheme", comma_separated(options.schemes)});
  }
  if (!options.ranks.empty()) {
    std::vector<std::string> ranks;
    for (const int n : options.ranks) {
      ranks.push_back(std::to_string(n));
    }
    out.arguments.insert(out.arguments.end(), {"--ranks", comma_separated(ranks)});
  }
  if (options.seeds != 1) {
    out.arguments.insert(out.arguments.end(), {"--seeds", std::to_string(options.seeds)});
  }
  if (options.timeout > 0) {
    out.timeout = options.timeout;
  } else {
    out.timeout = options.level == "quick" ? quick_timeout : gate_timeout;
  }
  return out;
}

/// Workers that wait for a case; as many as cases run beside each other.
class WorkerPool {
 public:
  explicit WorkerPool(WorkerOptions options) : options_(std::move(options)) {}

  /// The first worker, started: throws InputError where the backend cannot be loaded.
  WorkerReady start() {
    std::unique_ptr<Worker> worker = take();
    WorkerReady ready = worker->start();
    put(std::move(worker));
    return ready;
  }

  CaseResult run(const std::string& id, const std::string& tier) {
    std::unique_ptr<Worker> worker = take();
    CaseResult result = worker->run(id, tier);
    put(std::move(worker));
    return result;
  }

  /// Ends the workers; says how, where that was not in order.
  std::vector<std::string> stop() {
    std::vector<std::string> out;
    for (const auto& worker : idle_) {
      const std::string how = worker->stop();
      if (!how.empty()) {
        out.push_back(how);
      }
    }
    return out;
  }

 private:
  std::unique_ptr<Worker> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      return std::make_unique<Worker>(options_);
    }
    std::unique_ptr<Worker> worker = std::move(idle_.back());
    idle_.pop_back();
    return worker;
  }
  void put(std::unique_ptr<Worker> worker) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(worker));
  }

  WorkerOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Worker>> idle_;
};

void introduce(std::ostream& out, const VerifyOptions& options, const WorkerReady& ready) {
  out << "backend " << printable(ready.backend);
  if (!ready.about.empty()) {
    out << " (" << printable(ready.about) << ")";
  }
  out << ", judged by the contract " << ready.contract.name;
  if (!options.contract.empty()) {
    out << " of --contract, in place of its own, " << ready.declared.name;
  }
  out << std::endl;
}

}  // namespace

int verify_backend(const VerifyOptions& options) {
  std::vector<BackendCase> cases =
      shard_of(select_backend_cases(selection_of(options)), options.shard);
  if (options.list) {
    return list_cases(options, cases);
  }
  VerifyReport report(options);
  WorkerPool pool(worker_options(options));
  const WorkerReady ready = pool.start();
  introduce(report.out(), options, ready);
  report.begin(contract_columns(), 60);
  {
    Progress progress(!options.verbose);
    size_t done = 0;
    // A backend uses all cores, or a device, by itself: one case at a time unless --jobs says more.
    const int jobs = options.jobs > 0 ? options.jobs : 1;
    const auto judge = [&](size_t i) { return pool.run(cases[i].id, cases[i].tier); };
    run_in_order(cases.size(), jobs, judge, [&](CaseResult result) {
      const BackendCase& c = cases[done++];
      report.take(std::move(result), c.scheme);
      progress.show(join(done, " of ", cases.size(), " cases, at ", c.tier, ' ', c.id));
    });
  }
  for (const std::string& how : pool.stop()) {
    report.out() << "at the end, when it destroyed its context, " << how << '\n';
  }
  RunInfo run = run_info(1);
  run.contract = ready.contract.name;
  run.versions["backend"] = ready.backend;
  if (!ready.about.empty()) {
    run.device = ready.about;
  }
  return report.finish(run);
}

}  // namespace bdlm
