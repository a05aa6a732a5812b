#pragma once
// A folder for one test.

#include <cstdlib>
#include <filesystem>
#include <string>

#include "reference/base/error.h"

namespace bdlm {

/// An empty folder of its own, removed at the end.
class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "bdlm-XXXXXX").string();
    require<FileError>(mkdtemp(pattern.data()) != nullptr, "no folder for a test");
    path_ = pattern;
  }
  ~TestFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace bdlm
