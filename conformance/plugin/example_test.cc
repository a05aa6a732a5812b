// The example plug-in builds outside the tree with the one line that it documents, and is right
// where arithmetic is exact.

#include <unistd.h>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "conformance/plugin/calls.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(example)

namespace {

namespace fs = std::filesystem;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The example, built in a folder of its own from copies of its source and of the header.
struct BuiltOutside {
  BuiltOutside() {
    const fs::path source(BDLM_PLUGIN_SOURCE);
    folder = fs::temp_directory_path() / join("bdlm-example-", getpid());
    fs::create_directories(folder / "include");
    fs::copy(source / "bdlm_plugin.h", folder / "include");
    fs::copy(source / "example" / "attention_example.cc", folder);
    const std::string command =
        join("cd '", folder.string(), "' && '", BDLM_CXX,
             "' -std=c++17 -O2 -shared -fPIC -Iinclude attention_example.cc -o libexample.so");
    BOOST_TEST_REQUIRE(std::system(command.c_str()) == 0);
    backend = Backend::load((folder / "libexample.so").string());
  }
  ~BuiltOutside() {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  fs::path folder;
  std::unique_ptr<Backend> backend;
};

}  // namespace

BOOST_AUTO_TEST_CASE(it_is_short_and_documents_the_line_that_builds_it) {
  std::ifstream file(fs::path(BDLM_PLUGIN_SOURCE) / "example" / "attention_example.cc");
  std::string text;
  int64_t lines = 0;
  bool documented = false;
  while (std::getline(file, text)) {
    ++lines;
    documented =
        documented || text.find("g++ -std=c++17 -O2 -shared -fPIC -I") != std::string::npos;
  }
  BOOST_TEST(lines < 150);
  BOOST_TEST(lines > 50);
  BOOST_TEST(documented);
}

BOOST_FIXTURE_TEST_CASE(it_builds_outside_the_tree_and_computes, BuiltOutside) {
  BOOST_TEST(backend->name() == "example");
  // One row on two keys of equal score: the mean of the values, and log 2.
  AttentionCall call;
  call.sequence = Sequence::uniform(2, 2);
  call.shape = {1, 1, 2};
  call.scale = 0.5;
  call.rows = RowSet({}, {{0, 2}});
  call.q = {1, 0, 3, 5};
  CallKeys keys;
  keys.rows = call.rows;
  keys.k = {2, 7, 2, -3};
  keys.v = {1, 10, 3, -4};
  keys.intervals = {{0, 2}, {0, 0}};
  call.key_sets = {keys};
  const auto forward = call_attention(*backend, call, nullptr, Stage::final);
  BOOST_TEST(forward.violation == "");
  BOOST_TEST(forward.out.o == (std::vector<double>{2, 3, 0, 0}), boost::test_tools::per_element());
  BOOST_TEST(forward.out.lse[0] == 1 + std::log(2.0), boost::test_tools::tolerance(1e-6));
  BOOST_TEST(forward.out.lse[1] == -infinity);

  // d_o.v is 11 and -1, delta is 5, dS is +-0.5 * 0.5 * 6.
  const auto backward =
      call_attention_backward(*backend, call, forward.out, {1, 1, 9, 9}, nullptr, Stage::final);
  BOOST_TEST(backward.violation == "");
  const std::vector<double> dq{0, 15, 0, 0};
  const std::vector<double> dk{1.5, 0, -1.5, 0};
  const std::vector<double> dv{0.5, 0.5, 0.5, 0.5};
  for (size_t i = 0; i < 4; ++i) {
    BOOST_TEST(std::abs(backward.dq[i] - dq[i]) < 1e-5);
    BOOST_TEST(std::abs(backward.gradients[0].dk[i] - dk[i]) < 1e-5);
    BOOST_TEST(std::abs(backward.gradients[0].dv[i] - dv[i]) < 1e-5);
  }
}

BOOST_FIXTURE_TEST_CASE(its_merge_keeps_the_special_cases, BuiltOutside) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  // Rows of one head and one channel: empty sides, far apart, equal, NaN, infinite.
  const AttentionState a{{nan, nan, 1e8, 2, 1, 1, 1},
                         {-infinity, -infinity, -100, 3, nan, 0, infinity}};
  const AttentionState b{{-0.0, 7, 1, 4, 1, 1, 1}, {2.5, -infinity, 100, 3, 0, infinity, 0}};
  for (const bool in_place : {false, true}) {
    CallOptions options;
    options.in_place = in_place;
    const AttentionState ab = call_merge(*backend, 1, 1, a, b, options).out;
    const AttentionState ba = call_merge(*backend, 1, 1, b, a, options).out;
    BOOST_TEST((ab.o[0] == 0 && std::signbit(ab.o[0]) && ab.lse[0] == 2.5));
    BOOST_TEST((ab.o[1] == 0 && ab.lse[1] == -infinity));
    BOOST_TEST((ab.o[2] == 1 && ab.lse[2] == 100));
    BOOST_TEST(ab.o[3] == 3);
    BOOST_TEST(ab.lse[3] == 3 + std::log(2.0), boost::test_tools::tolerance(1e-6));
    for (size_t i = 4; i < 7; ++i) {
      BOOST_TEST((std::isnan(ab.o[i]) && std::isnan(ab.lse[i])));
      BOOST_TEST((std::isnan(ba.o[i]) && std::isnan(ba.lse[i])));
    }
    for (size_t i = 0; i < 4; ++i) {
      BOOST_TEST((ab.o[i] == ba.o[i] && ab.lse[i] == ba.lse[i]));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
