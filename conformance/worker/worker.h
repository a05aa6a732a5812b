#pragma once
// The parent's side: a process that runs a backend's cases, so that a crash or a hang costs one.

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "conformance/worker/line_stream.h"
#include "conformance/worker/protocol.h"

namespace bdlm {

struct WorkerOptions {
  /// The program and its arguments, argv[0] first; it calls `serve` with descriptor 3.
  std::string program;
  std::vector<std::string> arguments;
  /// Seconds for one case.
  double timeout = 60;
  /// Seconds from the start of the process until its backend is loaded.
  double start_timeout = 120;
};

/// One worker process, started anew after each that ends. Used by one thread at a time.
class Worker {
 public:
  explicit Worker(WorkerOptions options);
  /// Ends the process, by force where it does not end by itself within seconds.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Starts the process if there is none. Throws InputError where the backend cannot be loaded:
  /// with what the worker said, or how it ended instead.
  const WorkerReady& start();
  /// Runs a case. Never throws for what a backend does:
  ///   FAIL guard  it died of touching what surrounds a tensor: the detail says what it touched
  ///   CRASH       it died otherwise, or answered what is no answer: the detail names the signal or
  ///               the exit status
  ///   TIMEOUT     no answer in time; the process was killed
  CaseResult run(const std::string& id, const std::string& tier);
  /// Ends the process; what was wrong with how it ended, or nothing.
  std::string stop();
  /// Processes that were started.
  int64_t starts() const { return starts_; }
  /// The process that runs now, or -1.
  pid_t process() const { return process_; }

 private:
  void spawn();
  void close_files();
  /// Whether the process has ended, though it is still to be waited for.
  bool has_ended() const;
  /// Gives the process so many seconds to end, then kills it and all that it has started. How it
  /// ended: "was killed by SIGSEGV", "ended with status 3".
  std::string reap(double seconds);
  /// Waits for a line. `end` also where the process has ended without closing what it inherited.
  LineReader::Got next(std::string& line, Deadline deadline);
  void judge(CaseResult& result);

  WorkerOptions options_;
  pid_t process_ = -1;
  int commands_ = -1, results_ = -1;
  std::unique_ptr<LineReader> reader_;
  WorkerReady ready_;
  int64_t starts_ = 0;
  std::string last_case_;
};

}  // namespace bdlm
