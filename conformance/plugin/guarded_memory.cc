#include "conformance/plugin/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "reference/base/error.h"

namespace bdlm {
namespace {

constexpr int64_t guard_bytes = int64_t{1} << 20;

/// What the signal handler knows of one GuardedMemory. `taken` guards who fills it, `begin` tells
/// whether it is filled.
struct Slot {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0};  // of the reserved addresses
  uintptr_t end = 0;
  uintptr_t extent = 0;
  int64_t extent_size = 0;
  std::atomic<bool> inaccessible{false};
  char name[80] = {};
};
/// More than a call has; what does not find a slot is guarded all the same, but has no name.
std::array<Slot, 4096> slots;

int take_slot(const std::string& name, uintptr_t begin, uintptr_t end, uintptr_t extent,
              int64_t extent_size) {
  for (size_t i = 0; i < slots.size(); ++i) {
    Slot& slot = slots[i];
    if (!slot.taken.load(std::memory_order_relaxed) && !slot.taken.exchange(true)) {
      slot.end = end;
      slot.extent = extent;
      slot.extent_size = extent_size;
      slot.inaccessible.store(false);
      const size_t length = name.copy(slot.name, sizeof slot.name - 1);
      slot.name[length] = '\0';
      slot.begin.store(begin);
      return static_cast<int>(i);
    }
  }
  return -1;
}

/// Text in a buffer of fixed size.
class FixedText {
 public:
  FixedText(char* text, size_t size) : text_(text), size_(size) { text_[0] = '\0'; }
  FixedText& operator<<(const char* part) {
    while (*part != '\0' && length_ + 1 < size_) {
      text_[length_++] = *part++;
    }
    text_[length_] = '\0';
    return *this;
  }
  FixedText& operator<<(int64_t number) {
    char digits[24];
    char* at = digits + sizeof digits;
    *--at = '\0';
    uint64_t rest = number < 0 ? uint64_t{0} - static_cast<uint64_t>(number) : number;
    do {
      *--at = static_cast<char>('0' + rest % 10);
      rest /= 10;
    } while (rest > 0);
    if (number < 0) {
      *--at = '-';
    }
    return *this << at;
  }

 private:
  char* text_;
  size_t size_;
  size_t length_ = 0;
};

}  // namespace

GuardedMemory::GuardedMemory(const std::string& name, int64_t extent, int64_t misalignment) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  size_ = (extent + misalignment + tensor_alignment + page - 1) / page * page;
  offset_ = (size_ - extent - misalignment) / tensor_alignment * tensor_alignment + misalignment;
  const int64_t whole = size_ + 2 * guard_bytes;
  void* reserved = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require<Error>(reserved != MAP_FAILED, "no memory for ", name, " of ", extent,
                 " bytes: ", std::strerror(errno));
  reserved_ = static_cast<std::byte*>(reserved);
  memory_ = reserved_ + guard_bytes;
  if (mprotect(memory_, size_, PROT_READ | PROT_WRITE) != 0) {
    const int error = errno;
    munmap(reserved_, whole);
    throw Error(join("no memory for ", name, " of ", extent, " bytes: ", std::strerror(error)));
  }
  const auto begin = reinterpret_cast<uintptr_t>(reserved_);
  slot_ = take_slot(name, begin, begin + whole, begin + guard_bytes + offset_, extent);
}

GuardedMemory::~GuardedMemory() {
  if (slot_ >= 0) {
    slots[slot_].begin.store(0);
    slots[slot_].taken.store(false);
  }
  munmap(reserved_, size_ + 2 * guard_bytes);
}

void GuardedMemory::protect(Protection protection) {
  const int flags = protection == Protection::writable    ? PROT_READ | PROT_WRITE
                    : protection == Protection::read_only ? PROT_READ
                                                          : PROT_NONE;
  require<Error>(mprotect(memory_, size_, flags) == 0,
                 "memory cannot be protected: ", std::strerror(errno));
  if (slot_ >= 0) {
    slots[slot_].inaccessible.store(protection == Protection::inaccessible);
  }
}

void describe_guarded(const void* address, Access access, char* text, size_t size) {
  if (size == 0) {
    return;
  }
  FixedText out(text, size);
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const Slot& slot : slots) {
    const uintptr_t begin = slot.begin.load();
    if (begin == 0 || at < begin || at >= slot.end) {
      continue;
    }
    const auto byte = static_cast<int64_t>(at - slot.extent);
    const bool inside = byte >= 0 && byte < slot.extent_size;
    out << (access == Access::write ? "wrote" : access == Access::read ? "read" : "read or wrote");
    out << (byte < 0 ? " before " : !inside ? " behind " : access == Access::write ? " to " : " ");
    out << slot.name << ", at byte " << byte << " of " << slot.extent_size;
    if (slot.inaccessible.load()) {
      out << ", after the entry had returned";
    }
    return;
  }
}

}  // namespace bdlm
