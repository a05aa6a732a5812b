#include "conformance/plugin/backend.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "reference/base/json_file.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

constexpr int32_t host_device = 1;
constexpr int32_t cuda_device = 2;

bool plain_name(const char* text) {
  const std::string_view name(text);
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

/// Of entries that belong together, all or none.
template <class... Entries>
bool all_or_none(Entries... entries) {
  const int given = (static_cast<int>(entries != nullptr) + ...);
  return given == 0 || given == static_cast<int>(sizeof...(entries));
}

void check_entries(const bdlm_backend& entries, const std::string& where) {
  require(entries.version == BDLM_PLUGIN_VERSION, where, " has version ", entries.version,
          " of the plug-in interface; this program has ", BDLM_PLUGIN_VERSION);
  require(entries.size >= sizeof(bdlm_backend), where, ": size is ", entries.size,
          " bytes; this version's bdlm_backend has ", sizeof(bdlm_backend));
  require(entries.name != nullptr && plain_name(entries.name), where, ": name is ",
          entries.name == nullptr ? "NULL" : join("'", printable(entries.name, 60), "'"),
          "; allowed are letters, digits, '_', '-' and '.'");
  require(entries.device.type == host_device || entries.device.type == cuda_device, where,
          ": device.type is ", entries.device.type, "; known are 1 (host), 2 (CUDA)");
  require(entries.contract != nullptr, where, ": contract is NULL; a backend has to declare one");
  require(entries.last_error != nullptr, where, ": last_error is NULL; it is required");
  require(all_or_none(entries.create, entries.destroy), where,
          ": create and destroy are both given or both NULL");
  require(all_or_none(entries.allocate, entries.release, entries.copy_in, entries.copy_out), where,
          ": allocate, release, copy_in and copy_out are all given or all NULL");
  require((entries.allocate == nullptr) == (entries.device.type == host_device), where,
          ": memory entries are ", entries.allocate == nullptr ? "NULL" : "given",
          " and device.type is ", entries.device.type,
          "; they are NULL where it is 1 (host), and only there");
  require(all_or_none(entries.create_stream, entries.destroy_stream, entries.synchronize,
                      entries.delay),
          where,
          ": create_stream, destroy_stream, synchronize and delay are all given or all NULL");
}

}  // namespace

std::string name(bdlm_status status) {
  switch (status) {
    case BDLM_OK:
      return "BDLM_OK";
    case BDLM_UNSUPPORTED:
      return "BDLM_UNSUPPORTED";
    case BDLM_INVALID:
      return "BDLM_INVALID";
    case BDLM_OUT_OF_MEMORY:
      return "BDLM_OUT_OF_MEMORY";
    case BDLM_COMMUNICATION:
      return "BDLM_COMMUNICATION";
    case BDLM_FAILED:
      return "BDLM_FAILED";
    case BDLM_STATUS_INT:
      break;
  }
  return join("status ", static_cast<int>(status));
}

std::unique_ptr<Backend> Backend::load(const std::string& path) {
  const std::string where = "plug-in " + printable(path, 400);
  // A name without '/' would be looked for in the system's folders.
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  require(!error && std::filesystem::exists(absolute, error), where, " does not exist");
  // Never unmapped: threads of the library's own, or of a runtime below it, may live on.
  void* library = dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw InputError(join(where, " cannot be loaded: ",
                          printable(reason == nullptr ? "no reason is given" : reason, 400)));
  }
  try {
    void* symbol = dlsym(library, "bdlm_plugin");
    require(symbol != nullptr, where, " exports no function bdlm_plugin");
    const bdlm_backend* entries = reinterpret_cast<const bdlm_backend* (*)()>(symbol)();
    require(entries != nullptr, where, ": bdlm_plugin returned NULL");
    return std::unique_ptr<Backend>(new Backend(*entries, library, where));
  } catch (...) {
    dlclose(library);
    throw;
  }
}

std::unique_ptr<Backend> Backend::of(const bdlm_backend& entries) {
  return std::unique_ptr<Backend>(new Backend(entries, nullptr, "the built-in backend"));
}

Backend::Backend(const bdlm_backend& entries, void* library, const std::string& where)
    : entries_(&entries), library_(library) {
  check_entries(entries, where);
  const std::string source = where + ": contract";
  const Json document = parse_json(entries.contract, source);
  contract_ = parse_contract(bdlm::view(document, source));
  if (entries.create != nullptr) {
    const bdlm_status code = entries.create(&context_);
    if (code != BDLM_OK) {
      const std::string message = status(code).message;
      throw InputError(join(where, ": create returned ", bdlm::name(code),
                            message.empty() ? "" : ": ", message));
    }
  }
}

Backend::~Backend() {
  if (entries_->destroy != nullptr) {
    entries_->destroy(context_);
  }
  if (library_ != nullptr) {
    dlclose(library_);
  }
}

CallStatus Backend::status(bdlm_status code) const {
  CallStatus out;
  out.code = code;
  if (code != BDLM_OK) {
    const char* message = entries_->last_error(context_);
    out.message = message == nullptr ? "last_error returned NULL" : printable(message, 400);
  }
  return out;
}

CallStatus Backend::missing_entry() {
  CallStatus out;
  out.code = BDLM_UNSUPPORTED;
  out.null_entry = true;
  return out;
}

void Backend::check(const char* entry, bdlm_status code) const {
  if (code != BDLM_OK) {
    throw BackendError(entry, status(code));
  }
}

}  // namespace bdlm
