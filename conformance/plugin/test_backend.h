#pragma once
// The faulty plug-in, for tests.

#include <cstdlib>
#include <memory>
#include <string>

#include "conformance/plugin/backend.h"

namespace bdlm {

/// Sets an environment variable, and unsets it at the end.
class Environment {
 public:
  Environment(const char* variable, const std::string& value) : variable_(variable) {
    setenv(variable, value.c_str(), 1);
  }
  ~Environment() { unsetenv(variable_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* variable_;
};

inline std::unique_ptr<Backend> faulty_backend(bool device = false) {
  if (device) {
    const Environment on_device("BDLM_FAULT_DEVICE", "1");
    return Backend::load(BDLM_FAULTY_PLUGIN);
  }
  return Backend::load(BDLM_FAULTY_PLUGIN);
}

}  // namespace bdlm
