#pragma once
// The two plug-ins that the device tests share.

#include <memory>

#include "optimized/cuda/plugin_under_test.h"

namespace bdlm {

struct TestPlugins {
  std::unique_ptr<Plugin> low, oracle;
};
inline TestPlugins& test_plugins() {
  static TestPlugins plugins;
  return plugins;
}

}  // namespace bdlm
