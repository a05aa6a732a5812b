#include "conformance/fuzz/fuzz_input.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <typeinfo>

#include "reference/base/error.h"

// Of AddressSanitizer's runtime; null where a program runs without it.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
__attribute__((weak)) int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*,
                                                                             size_t),
                                                                    void (*)(const volatile void*));
__attribute__((weak)) size_t __sanitizer_get_allocated_size(const volatile void*);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace bdlm {
namespace {

/// Longest message that a reader may write: a path, a name and a value, each cut.
constexpr size_t longest_message = 2000;

// Of this thread; readers start none.
thread_local bool counting = false;
thread_local int64_t live = 0;
thread_local int64_t most = 0;

void count_allocation(const volatile void*, size_t bytes) {
  if (counting) {
    live += static_cast<int64_t>(bytes);
    most = live > most ? live : most;
  }
}

void count_release(const volatile void* data) {
  if (counting && data != nullptr) {
    live -= static_cast<int64_t>(__sanitizer_get_allocated_size(data));
  }
}

void install_counters() {
  static const bool done = [] {
    if (__sanitizer_install_malloc_and_free_hooks != nullptr) {
      expect(__sanitizer_install_malloc_and_free_hooks(count_allocation, count_release) > 0,
             "no place for the counters of memory");
    }
    return true;
  }();
  static_cast<void>(done);
}

void check_message(const std::string& source, const std::string& text) {
  expect(text.rfind(source + ": ", 0) == 0, "a message does not begin with its file: " + text);
  expect(text.size() <= source.size() + longest_message, "a message is too long: " + text);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F, in UTF-8.
    const bool upper = byte == 0xc2 && i + 1 < text.size() &&
                       (static_cast<unsigned char>(text[i + 1]) & 0xe0) == 0x80;
    expect(byte >= 0x20 && byte != 0x7f && !upper, "a message has a control character: " + text);
  }
}

}  // namespace

void expect(bool condition, std::string_view what) {
  if (!condition) {
    std::cerr << "finding: " << what << std::endl;
    std::abort();
  }
}

MemoryFile::MemoryFile(const uint8_t* data, size_t size)
    : file_(::memfd_create("input", MFD_CLOEXEC)), path_(join("/proc/self/fd/", file_)) {
  expect(file_ >= 0, "no file in memory");
  for (size_t done = 0; done < size;) {
    const ssize_t wrote = ::write(file_, data + done, size - done);
    expect(wrote > 0, "no room for a file in memory");
    done += static_cast<size_t>(wrote);
  }
}

MemoryFile::~MemoryFile() {
  ::close(file_);
}

bool run_reader(const std::string& source, size_t size, int64_t constant, int64_t factor,
                void (*reader)(void* state), void* state) {
  install_counters();
  bool accepted = false;
  std::string text;
  live = 0;
  most = 0;
  counting = true;
  try {
    reader(state);
    accepted = true;
  } catch (const FileError& error) {
    text = error.what();
  } catch (const InputError& error) {
    text = error.what();
  } catch (const std::exception& error) {
    counting = false;
    expect(false, join("an error of type ", typeid(error).name(), ": ", error.what()));
  }
  counting = false;
  const int64_t allowed = constant + factor * static_cast<int64_t>(size);
  expect(most <= allowed,
         join(most, " bytes at a time for ", size, " of input; allowed are ", allowed));
  if (!accepted) {
    check_message(source, text);
  }
  return accepted;
}

}  // namespace bdlm
