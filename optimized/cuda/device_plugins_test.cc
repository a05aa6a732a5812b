// Loads the plug-ins that the device tests share. The environment names their files. Without a
// device the program exits with 77, which CTest counts as skipped.

#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <cstdlib>

#include "optimized/cuda/device_test_plugins.h"

namespace bdlm {
namespace {

struct Plugins {
  Plugins() {
    TestPlugins& plugins = test_plugins();
    plugins.low = load("BDLM_CUDA_PLUGIN");
    plugins.oracle = load("BDLM_CUDA_F64_PLUGIN");
    if (!plugins.low->start() || !plugins.oracle->start()) {
      std::fputs("skipped: there is no CUDA device\n", stderr);
      std::_Exit(77);
    }
    std::printf("%s\n", (*plugins.low)->about);
  }
  ~Plugins() { test_plugins() = {}; }

  static std::unique_ptr<Plugin> load(const char* variable) {
    const char* path = std::getenv(variable);
    require(path != nullptr, "the environment variable ", variable, " has to name a plug-in");
    return std::make_unique<Plugin>(path);
  }
};
BOOST_TEST_GLOBAL_FIXTURE(Plugins);

}  // namespace
}  // namespace bdlm
