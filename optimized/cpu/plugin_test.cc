// The shared libraries as a user's program sees them.

#include <dlfcn.h>

#include <boost/test/unit_test.hpp>
#include <string>

#include "conformance/plugin/bdlm_plugin.h"

namespace {

// BDLM_CPU_PLUGIN and BDLM_CPU_BF16_PLUGIN are the paths of the two libraries.
BOOST_AUTO_TEST_CASE(plugins_load_and_export_one_symbol) {
  for (const char* path : {BDLM_CPU_PLUGIN, BDLM_CPU_BF16_PLUGIN}) {
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    BOOST_REQUIRE_MESSAGE(library != nullptr, dlerror());
    auto* plugin = reinterpret_cast<const bdlm_backend* (*)()>(dlsym(library, "bdlm_plugin"));
    BOOST_REQUIRE(plugin != nullptr);
    BOOST_TEST(dlsym(library, "bdlm_cpu_backend") == nullptr);
    const bdlm_backend* backend = plugin();
    BOOST_TEST(backend == plugin());
    BOOST_TEST(backend->version == BDLM_PLUGIN_VERSION);
    BOOST_TEST(backend->size == sizeof(bdlm_backend));
    BOOST_TEST(std::string(backend->name) ==
               (path == std::string(BDLM_CPU_PLUGIN) ? "cpu" : "cpu-bf16"));
    void* context = nullptr;
    BOOST_REQUIRE(backend->create(&context) == BDLM_OK);
    BOOST_TEST(std::string(backend->last_error(context)).empty());
    BOOST_TEST(backend->attention(context, nullptr) == BDLM_INVALID);
    BOOST_TEST(std::string(backend->last_error(context)) == "the arguments are missing");
    bdlm_merge_args args{};
    BOOST_TEST(backend->merge(context, &args) == BDLM_INVALID);
    backend->destroy(context);
    BOOST_TEST(dlclose(library) == 0);
  }
}

}  // namespace
