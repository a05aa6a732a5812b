#pragma once
// A backend: a plug-in that was loaded and checked, and its one context.

#include <cstdint>
#include <memory>
#include <string>

#include "conformance/judge/contract.h"
#include "conformance/plugin/bdlm_plugin.h"
#include "reference/base/error.h"

namespace bdlm {

/// What a call came to.
struct CallStatus {
  bdlm_status code = BDLM_OK;
  /// The entry is NULL: declared as missing. `code` is BDLM_UNSUPPORTED.
  bool null_entry = false;
  /// The backend's last error; empty where code is BDLM_OK.
  std::string message;
  bool ok() const { return code == BDLM_OK; }
};

/// "BDLM_OK", "BDLM_UNSUPPORTED", ...; "status 17" for what the header does not name.
std::string name(bdlm_status status);

/// An entry that serves others (memory, streams) returned an error.
class BackendError : public Error {
 public:
  BackendError(const std::string& entry, CallStatus status)
      : Error(join(entry, " returned ", bdlm::name(status.code), status.message.empty() ? "" : ": ",
                   status.message)),
        status_(std::move(status)) {}
  const CallStatus& status() const { return status_; }

 private:
  CallStatus status_;
};

/// Owns the library and a context. Not copied; used by one thread at a time.
class Backend {
 public:
  /// Loads a shared library that exports bdlm_plugin. Throws InputError, naming the path, where it
  /// cannot be loaded, has another version or a smaller struct than this program, a name of other
  /// characters than the header allows, an unknown device, a contract that does not parse, memory
  /// entries on the host or none elsewhere, only some of the memory or of the stream entries,
  /// `create` without `destroy`, no `last_error`, or a `create` that fails.
  static std::unique_ptr<Backend> load(const std::string& path);
  /// One that is linked in. The same checks.
  static std::unique_ptr<Backend> of(const bdlm_backend& entries);
  ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  const bdlm_backend& entries() const { return *entries_; }
  void* context() const { return context_; }
  std::string name() const { return entries_->name; }
  std::string about() const { return entries_->about == nullptr ? "" : entries_->about; }
  /// What it is judged by: what it declares, or what `judge_by` has put in its place.
  const Contract& contract() const { return contract_; }
  void judge_by(const Contract& contract) { contract_ = contract; }
  /// Whether tensors live on the host, so that guard pages protect them.
  bool on_host() const { return entries_->allocate == nullptr; }

  /// The status of an entry's return value, with the backend's last error.
  CallStatus status(bdlm_status code) const;
  /// Throws BackendError unless the entry returned BDLM_OK.
  void check(const char* entry, bdlm_status code) const;
  static CallStatus missing_entry();

 private:
  Backend(const bdlm_backend& entries, void* library, const std::string& where);

  const bdlm_backend* entries_;
  void* library_;
  void* context_ = nullptr;
  Contract contract_;
};

}  // namespace bdlm
