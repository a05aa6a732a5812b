#include "conformance/worker/serve.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "conformance/plugin/tensors.h"
#include "conformance/report/write_report.h"
#include "conformance/worker/fault_handler.h"
#include "conformance/worker/line_stream.h"
#include "conformance/worker/protocol.h"
#include "reference/base/error.h"

namespace bdlm {
namespace {

/// How long a process may take to end once its parent has hung up.
constexpr auto exit_wait = std::chrono::seconds(10);

/// A copy of a descriptor where no one looks for it; the programs that a backend starts do not get
/// it.
int move_away(int file) {
  constexpr int first = 100;
  const int copy = fcntl(file, F_DUPFD_CLOEXEC, first);
  require<Error>(copy >= 0, "descriptor ", file, ": ", std::strerror(errno));
  return copy;
}

void replace(int file, int by) {
  require<Error>(dup2(by, file) >= 0, "descriptor ", file, ": ", std::strerror(errno));
}

/// Ends the process when the other side of `commands` is gone, even in the middle of a case.
void watch(int commands) {
  std::thread([commands] {
    pollfd hung_up{commands, POLLRDHUP, 0};
    while (poll(&hung_up, 1, -1) < 0 && errno == EINTR) {
    }
    std::this_thread::sleep_for(exit_wait);
    _exit(0);
  }).detach();
}

CaseResult unknown_case(const std::string& id) {
  CaseResult result;
  result.id = id;
  result.tier = "T4";
  result.verdict = Verdict::crash;
  result.detail = "the worker has no such case";
  return result;
}

int serve_cases(int commands, int results, const WorkerTask& task) {
  std::unique_ptr<Backend> backend;
  try {
    backend = task.load();
  } catch (const std::exception& error) {
    write_all(results, write_message(WorkerRefusal{error.what()}));
    return 2;
  }
  const Contract declared = backend->contract();
  if (task.contract) {
    backend->judge_by(*task.contract);
  }
  if (!write_all(results, write_message(WorkerReady{backend->name(), backend->about(), declared,
                                                    backend->contract()}))) {
    return 2;
  }
  std::map<std::string, const BackendCase*> by_id;
  for (const BackendCase& c : task.cases) {
    by_id[c.id] = &c;
  }
  LineReader reader(commands);
  std::string id;
  while (reader.next(id, std::nullopt) == LineReader::Got::line) {
    const auto it = by_id.find(id);
    const CaseResult result =
        it == by_id.end() ? unknown_case(id) : run_case(*it->second, *backend);
    if (!write_all(results, json_line(result))) {
      return 2;
    }
  }
  return 0;
}

}  // namespace

int serve(int results, const WorkerTask& task) {
  const int commands = move_away(STDIN_FILENO);
  const int answers = move_away(results);
  close(results);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  require<Error>(nothing >= 0, "/dev/null: ", std::strerror(errno));
  replace(STDIN_FILENO, nothing);
  close(nothing);
  replace(STDOUT_FILENO, STDERR_FILENO);
  // Crashes are the business of this program; files of its memory would fill the disk.
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  watch(commands);
  report_faults_to(answers);
  return serve_cases(commands, answers, task);
}

}  // namespace bdlm
