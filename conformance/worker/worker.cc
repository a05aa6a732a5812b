#include "conformance/worker/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

using Clock = std::chrono::steady_clock;

/// Seconds that a process gets to end by itself.
constexpr double end_limit = 10;
/// How often a silent worker is looked after.
constexpr auto glance = std::chrono::milliseconds(100);
constexpr int results_file = 3;

Deadline after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// "SIGSEGV"; "signal 40" for what has no name.
std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? join("signal ", signal) : join("SIG", name);
}

std::string ending(int status) {
  if (WIFSIGNALED(status)) {
    return "was killed by " + signal_name(WTERMSIG(status));
  }
  return join("ended with status ", WEXITSTATUS(status));
}

void check_spawn(int error, const char* what) {
  require<Error>(error == 0, what, ": ", std::strerror(error));
}

/// posix_spawn's arguments, which are given back.
struct SpawnPlan {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  SpawnPlan() {
    check_spawn(posix_spawn_file_actions_init(&actions), "posix_spawn");
    check_spawn(posix_spawnattr_init(&attributes), "posix_spawn");
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
};

}  // namespace

Worker::Worker(WorkerOptions options) : options_(std::move(options)) {}

Worker::~Worker() {
  stop();
}

void Worker::spawn() {
  int commands[2], results[2];
  require<Error>(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, commands) == 0,
                 "socketpair: ", std::strerror(errno));
  if (pipe2(results, O_CLOEXEC) != 0) {
    const int error = errno;
    close(commands[0]);
    close(commands[1]);
    throw Error(join("pipe: ", std::strerror(error)));
  }
  commands_ = commands[0];
  results_ = results[0];
  int error = 0;
  {
    SpawnPlan plan;
    // The second dup2 must not hit what the first one still has to copy.
    const int safe = fcntl(results[1], F_DUPFD_CLOEXEC, 10);
    posix_spawn_file_actions_adddup2(&plan.actions, commands[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&plan.actions, safe, results_file);
    posix_spawn_file_actions_addclosefrom_np(&plan.actions, results_file + 1);
    // What this program ignores or blocks is its own affair; a group of its own, so that whatever
    // the backend starts can be killed with it.
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&plan.attributes, &none);
    posix_spawnattr_setsigdefault(&plan.attributes, &all);
    posix_spawnattr_setpgroup(&plan.attributes, 0);
    posix_spawnattr_setflags(
        &plan.attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    std::vector<char*> arguments;
    for (std::string& argument : options_.arguments) {
      arguments.push_back(argument.data());
    }
    arguments.push_back(nullptr);
    error = posix_spawn(&process_, options_.program.c_str(), &plan.actions, &plan.attributes,
                        arguments.data(), environ);
    close(safe);
  }
  close(commands[1]);
  close(results[1]);
  if (error != 0) {
    process_ = -1;
    close_files();
    throw Error(join(printable(options_.program), " cannot be started: ", std::strerror(error)));
  }
  reader_ = std::make_unique<LineReader>(results_);
  ++starts_;
}

void Worker::close_files() {
  for (int* file : {&commands_, &results_}) {
    if (*file >= 0) {
      close(*file);
      *file = -1;
    }
  }
}

bool Worker::has_ended() const {
  siginfo_t info{};
  // It stays a zombie, so that its number and its group's are nobody else's.
  const int got = waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT);
  return got == 0 ? info.si_pid == process_ : errno == ECHILD;
}

std::string Worker::reap(double seconds) {
  const Deadline deadline = after(seconds);
  bool killed = false;
  while (!has_ended()) {
    if (!killed && Clock::now() >= deadline) {
      kill(-process_, SIGKILL);
      killed = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // Whatever it has started goes with it.
  kill(-process_, SIGKILL);
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  close_files();
  process_ = -1;
  return killed ? "did not end by itself and was killed" : ending(status);
}

LineReader::Got Worker::next(std::string& line, Deadline deadline) {
  while (true) {
    const LineReader::Got got = reader_->next(line, std::min(deadline, Clock::now() + glance));
    if (got != LineReader::Got::late) {
      return got;
    }
    // A process that the backend has started may keep the pipe open.
    if (has_ended()) {
      const LineReader::Got last = reader_->next(line, Clock::now());
      return last == LineReader::Got::late ? LineReader::Got::end : last;
    }
    if (Clock::now() >= deadline) {
      return LineReader::Got::late;
    }
  }
}

const WorkerReady& Worker::start() {
  if (process_ > 0) {
    return ready_;
  }
  last_case_.clear();
  spawn();
  const Deadline deadline = after(options_.start_timeout);
  std::string line, did;
  while (true) {
    const LineReader::Got got = next(line, deadline);
    if (got == LineReader::Got::late) {
      reap(0);
      throw InputError(
          join("the backend was not loaded within ", options_.start_timeout, " seconds"));
    }
    if (got == LineReader::Got::end) {
      const std::string how = reap(end_limit);
      throw InputError(join("the worker ", how, " while it loaded the backend",
                            did.empty() ? "" : ": it ", did));
    }
    if (line.empty()) {
      continue;
    }
    WorkerMessage message;
    try {
      message = parse_message(line, "the worker");
    } catch (const Error& error) {
      reap(0);
      throw InputError(join("the worker's first answer is none: ", error.what()));
    }
    if (const auto* refusal = std::get_if<WorkerRefusal>(&message)) {
      const std::string text = refusal->error;
      reap(end_limit);
      throw InputError(text);
    }
    if (const auto* fault = std::get_if<WorkerFault>(&message)) {
      did = fault->did;
    } else if (const auto* ready = std::get_if<WorkerReady>(&message)) {
      ready_ = *ready;
      return ready_;
    } else {
      reap(0);
      throw InputError("the worker's first answer is none: it is a case");
    }
  }
}

CaseResult Worker::run(const std::string& id, const std::string& tier) {
  const auto begin = Clock::now();
  CaseResult result;
  result.verdict = Verdict::crash;
  result.id = id;
  try {
    start();
    judge(result);
  } catch (const Error& error) {
    result.detail = error.what();
  }
  result.id = id;
  result.tier = tier;
  result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  last_case_ = id;
  return result;
}

void Worker::judge(CaseResult& result) {
  const Deadline deadline = after(options_.timeout);
  // Where this fails, the worker has ended already; the end of its answers says how.
  const bool sent = write_all(commands_, result.id + "\n");
  const std::string before =
      sent || last_case_.empty() ? "" : "after case " + last_case_ + " had its answer: ";
  std::string line;
  WorkerFault fault;
  while (true) {
    const LineReader::Got got = next(line, deadline);
    if (got == LineReader::Got::late) {
      reap(0);
      result.verdict = Verdict::timeout;
      result.detail = join("no answer within ", options_.timeout, " seconds");
      return;
    }
    if (got == LineReader::Got::end) {
      const std::string how = reap(end_limit);
      if (fault.guard) {
        result.verdict = Verdict::fail;
        result.reason = Reason::guard;
      }
      result.detail = join(before, fault.did.empty() ? "" : "it ", fault.did,
                           fault.did.empty() ? "" : "; ", "the worker ", how);
      return;
    }
    if (line.empty()) {
      continue;
    }
    try {
      const WorkerMessage message = parse_message(line, "the worker");
      if (const auto* words = std::get_if<WorkerFault>(&message)) {
        fault = *words;
        continue;
      }
      const auto* answer = std::get_if<CaseResult>(&message);
      require(answer != nullptr && answer->id == result.id,
              "the worker: another message than the answer");
      result = *answer;
      return;
    } catch (const Error& error) {
      reap(0);
      result.detail = join(before, "the answer cannot be read, and the worker was killed: ",
                           printable(error.what(), 200));
      return;
    }
  }
}

std::string Worker::stop() {
  if (process_ <= 0) {
    return "";
  }
  close(commands_);
  commands_ = -1;
  const std::string how = reap(end_limit);
  return how == ending(0) ? "" : "the worker " + how;
}

}  // namespace bdlm
