#pragma once
// SHA-256 (FIPS 180-4): by it a manifest names the bytes of its files.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace bdlm {

class Sha256 {
 public:
  void add(const void* data, size_t bytes);
  /// The digest of all bytes so far, 64 hexadecimal digits in lower case. Ends the object's use.
  std::string hex();

 private:
  void block(const uint8_t* bytes);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> rest_{};
  uint64_t bytes_ = 0;
};

/// The digest of a whole file. Throws FileError where it cannot be read.
std::string sha256_of_file(const std::string& path);

}  // namespace bdlm
