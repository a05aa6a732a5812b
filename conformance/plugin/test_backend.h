#pragma once
// The faulty plug-in, for tests.

#include <memory>
#include <string>

#include "conformance/plugin/backend.h"

namespace bdlm {

/// Sets an environment variable, and unsets it at the end.
class Environment {
 public:
  Environment(const char* variable, const std::string& value);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* variable_;
};

/// The file of the plug-in (faulty_plugin.cc).
std::string faulty_plugin();

/// Loads it; with tensors on the host, or on the device of its own.
std::unique_ptr<Backend> faulty_backend(bool device = false);

}  // namespace bdlm
