#pragma once
// What every call of an entry has around it: workspace, stream, protection, checks.

#include <functional>
#include <string>

#include "conformance/plugin/calls.h"

namespace bdlm {

/// The type of a workspace entry, for entries that have none.
template <class Args>
using NoWorkspace = bdlm_status (*)(void*, const Args*, uint64_t*);

/// A stream of the backend's, or its default one.
class CallStream {
 public:
  CallStream(const Backend& backend, const CallOptions& options) : backend_(backend) {
    const bdlm_backend& entries = backend.entries();
    if (!options.own_stream || entries.create_stream == nullptr) {
      return;
    }
    backend.check("create_stream", entries.create_stream(backend.context(), &stream_));
    own_ = true;
    if (options.delay_us > 0) {
      const bdlm_status code = entries.delay(backend.context(), stream_, options.delay_us);
      if (code != BDLM_OK) {
        const CallStatus status = backend.status(code);
        entries.destroy_stream(backend.context(), stream_);
        throw BackendError("delay", status);
      }
    }
  }
  ~CallStream() {
    if (own_) {
      backend_.entries().destroy_stream(backend_.context(), stream_);
    }
  }
  CallStream(const CallStream&) = delete;
  CallStream& operator=(const CallStream&) = delete;

  void* get() const { return stream_; }
  void synchronize() const {
    if (backend_.entries().synchronize != nullptr) {
      backend_.check("synchronize", backend_.entries().synchronize(backend_.context(), stream_));
    }
  }

 private:
  const Backend& backend_;
  void* stream_ = nullptr;
  bool own_ = false;
};

/// One call. `make` takes the workspace, protects the inputs, calls, ends the host arrays, waits
/// and checks; `results` then reads, where the call came to something that is worth reading.
class CallFrame {
 public:
  CallFrame(const Backend& backend, const CallOptions& options)
      : tensors(backend, options.tensors), backend_(backend), stream_(backend, options) {}

  CallTensors tensors;
  CallStatus status;
  std::string violation;

  template <class Args, class Workspace>
  void make(Args& args, Workspace query, bdlm_status (*entry)(void*, const Args*)) {
    args.stream = stream_.get();
    if constexpr (requires { args.workspace; }) {
      if (query != nullptr) {
        uint64_t bytes = 0;
        status = backend_.status(query(backend_.context(), &args, &bytes));
        if (!status.ok()) {
          return;
        }
        args.workspace = tensors.workspace(bytes);
        args.workspace_bytes = bytes;
      }
    }
    const Args* guarded = tensors.host_array("args", std::vector<Args>{args});
    tensors.protect();
    status = backend_.status(entry(backend_.context(), guarded));
    tensors.end_host_arrays();
    stream_.synchronize();
    using After = CallTensors::After;
    violation = tensors.check(status.ok()                       ? After::success
                              : status.code == BDLM_UNSUPPORTED ? After::refusal
                                                                : After::failure);
  }

  template <class Read>
  void results(const Read& read) const {
    if (status.ok()) {
      read();
    }
  }

 private:
  const Backend& backend_;
  CallStream stream_;
};

/// Runs a call that `body` makes in a frame of its own; what it came to.
template <class Entry, class Body>
CallStatus run_call(const Backend& backend, Entry entry, const CallOptions& options,
                    std::string& violation, const Body& body) {
  if (entry == nullptr) {
    return Backend::missing_entry();
  }
  try {
    CallFrame frame(backend, options);
    body(frame);
    violation = frame.violation;
    return frame.status;
  } catch (const BackendError& error) {
    CallStatus status = error.status();
    status.message = error.what();
    return status;
  }
}

}  // namespace bdlm
