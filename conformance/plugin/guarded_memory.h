#pragma once
// Host memory between inaccessible pages, and which of it an address belongs to.

#include <cstddef>
#include <cstdint>
#include <string>

namespace bdlm {

/// Bytes: what the first element of a tensor is aligned to, where a case does not misalign it.
inline constexpr int64_t tensor_alignment = 256;

/// What a stray instruction did.
enum class Access : uint8_t { read, write, unknown };

/// Whole pages that may be read and written, with 1 MiB before and behind that may not. While it
/// exists, `describe_guarded` knows it.
class GuardedMemory {
 public:
  /// Room for `extent` bytes that begin `misalignment` bytes behind a multiple of 256 and end as
  /// close to the inaccessible pages as that permits, so less than 256 bytes before them. `name`
  /// is for messages, for instance "input q". Throws Error where the system has no memory.
  GuardedMemory(const std::string& name, int64_t extent, int64_t misalignment);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  /// The first accessible byte.
  std::byte* memory() const { return memory_; }
  /// Bytes from there to the end of what is accessible: whole pages.
  int64_t size() const { return size_; }
  /// Bytes from memory() to the extent.
  int64_t offset() const { return offset_; }

  enum class Protection : uint8_t { writable, read_only, inaccessible };
  void protect(Protection protection);

 private:
  std::byte* reserved_ = nullptr;
  std::byte* memory_ = nullptr;
  int64_t size_ = 0, offset_ = 0;
  int slot_ = -1;
};

/// Writes what an access to an address would do to which guarded memory, for instance "wrote to
/// input q, at byte 40 of 4096" or "read behind output o, at byte 4100 of 4096" (counted from its
/// first element), at most `size` characters with the closing 0; an empty text where the address
/// belongs to none. Async-signal-safe.
void describe_guarded(const void* address, Access access, char* text, size_t size);

}  // namespace bdlm
