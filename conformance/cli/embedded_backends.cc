#include "conformance/cli/embedded_backends.h"

#include <map>

#include "reference/base/error.h"
#include "reference/base/text.h"
#ifdef BDLM_CPU_BACKEND
#include "optimized/cpu/backend.h"
#endif

namespace bdlm {
namespace {

using Entries = const bdlm_backend* (*)();

const std::map<std::string, Entries>& embedded() {
  static const std::map<std::string, Entries> all{
#ifdef BDLM_CPU_BACKEND
      {"cpu", bdlm_cpu_backend},
      {"cpu-bf16", bdlm_cpu_bf16_backend},
#endif
  };
  return all;
}

}  // namespace

std::vector<std::string> embedded_backend_names() {
  std::vector<std::string> out;
  for (const auto& [backend_name, entries] : embedded()) {
    out.push_back(backend_name);
  }
  return out;
}

std::unique_ptr<Backend> find_backend(const std::string& name_or_path) {
  const auto it = embedded().find(name_or_path);
  if (it != embedded().end()) {
    return Backend::of(*it->second());
  }
  const bool looks_like_a_file = name_or_path.find_first_of("./") != std::string::npos;
  require(looks_like_a_file, "unknown backend '", printable(name_or_path), "'; known are ",
          embedded().empty() ? "" : listed(embedded_backend_names()) + ", and ",
          "paths of shared libraries, for instance ./libmine.so");
  return Backend::load(name_or_path);
}

}  // namespace bdlm
