#pragma once
// What a worker and its parent say to each other: lines of JSON from the worker, case ids to it.

#include <string>
#include <string_view>
#include <variant>

#include "conformance/judge/contract.h"
#include "conformance/report/report.h"

namespace bdlm {

/// First of all: the backend is loaded.
struct WorkerReady {
  std::string backend, about;
  Contract declared;
  /// The contract by which it is judged.
  Contract contract;
};

/// Or it cannot be; then the worker ends.
struct WorkerRefusal {
  std::string error;
};

/// Last words of a signal handler; the signal itself follows.
struct WorkerFault {
  /// For instance "wrote to input q, at byte 4 of 4096".
  std::string did;
  /// Whether this touched what surrounds a tensor of the call.
  bool guard = false;
};

/// A CaseResult is the answer to a case id.
using WorkerMessage = std::variant<WorkerReady, WorkerRefusal, WorkerFault, CaseResult>;

/// With the line feed. A fault is written by the handler itself, in the same form.
std::string write_message(const WorkerReady& message);
std::string write_message(const WorkerRefusal& message);

/// Throws InputError or FileError, one line that begins with `source`, for a line that is none of
/// these messages.
WorkerMessage parse_message(std::string_view line, const std::string& source);

}  // namespace bdlm
