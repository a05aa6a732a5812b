#include "conformance/plugin/test_backend.h"

#include <cstdlib>
#include <optional>

namespace bdlm {

Environment::Environment(const char* variable, const std::string& value) : variable_(variable) {
  setenv(variable, value.c_str(), 1);
}

Environment::~Environment() {
  unsetenv(variable_);
}

std::string faulty_plugin() {
  return BDLM_FAULTY_PLUGIN;
}

std::unique_ptr<Backend> faulty_backend(bool device) {
  std::optional<Environment> on_device;
  if (device) {
    on_device.emplace("BDLM_FAULT_DEVICE", "1");
  }
  return Backend::load(faulty_plugin());
}

}  // namespace bdlm
