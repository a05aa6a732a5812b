#pragma once
// What the fuzz targets share: an input as a file, the promises that every error must keep, and a
// bound on memory.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace bdlm {

/// Ends the program with a message on standard error unless `condition` holds: a finding.
void expect(bool condition, std::string_view what);

/// Bytes as a file that has a path and takes no place on a disk.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t size);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  int file_;
  std::string path_;
};

/// Runs a reader. FileError and InputError are what readers may throw, with one short line without
/// control characters that begins with `source`; anything else is a finding. So is more memory at a
/// time than `constant` + `factor` * `size` bytes, where the program runs under AddressSanitizer,
/// which sees every allocation. Returns whether the reader accepted the input.
bool run_reader(const std::string& source, size_t size, int64_t constant, int64_t factor,
                void (*reader)(void* state), void* state);

template <class F>
bool run_reader(const std::string& source, size_t size, int64_t constant, int64_t factor, F f) {
  return run_reader(
      source, size, constant, factor, [](void* state) { (*static_cast<F*>(state))(); }, &f);
}

}  // namespace bdlm
