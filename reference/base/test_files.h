#pragma once
// What tests of readers and writers share: a folder of their own, and the message of an error.

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "reference/base/error.h"

namespace bdlm::testing {

/// An empty folder that is removed again.
struct Directory {
  std::filesystem::path path;
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "bdlm_test_XXXXXX").string();
    BOOST_REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Directory() { std::filesystem::remove_all(path); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
};

inline std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// The message of the E that `f` throws; fails unless it is one line.
template <class E, class F>
std::string message(const F& f) {
  try {
    f();
  } catch (const E& error) {
    std::string text = error.what();
    BOOST_TEST(text.find_first_of("\n\r") == std::string::npos);
    return text;
  } catch (const std::exception& error) {
    BOOST_ERROR("another error: " << error.what());
    return {};
  }
  BOOST_ERROR("no error");
  return {};
}

/// Whether `part` is in `text`; says so where not.
inline bool has(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) {
    BOOST_TEST_MESSAGE("'" << part << "' is not in '" << text << "'");
  }
  return found;
}

}  // namespace bdlm::testing
