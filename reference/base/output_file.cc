#include "reference/base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

constexpr size_t buffer_bytes = size_t{1} << 20;

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

/// A name that no other writer of this or another process picks.
std::string temporary_beside(const std::string& path) {
  static std::atomic<int64_t> serial{0};
  return join(directory_of(path), "/.bdlm-", ::getpid(), '-', serial++, ".tmp");
}

/// The names of temporary files where a signal handler can read them: in place, complete before
/// they are announced.
struct Slot {
  std::atomic<int> state{0};  // 0 free, 1 being written, 2 holds a name
  char name[PATH_MAX] = {};
};
constexpr int slot_count = 64;
Slot slots[slot_count];

/// The slot that now holds `name`, or -1.
int remember(const std::string& name) {
  if (name.size() >= PATH_MAX) {
    return -1;
  }
  for (int i = 0; i < slot_count; ++i) {
    int free = 0;
    if (slots[i].state.compare_exchange_strong(free, 1)) {
      std::memcpy(slots[i].name, name.c_str(), name.size() + 1);
      slots[i].state = 2;
      return i;
    }
  }
  return -1;
}

void forget(int slot) {
  if (slot >= 0) {
    slots[slot].state = 0;
  }
}

}  // namespace

void OutputFile::remove_temporaries() noexcept {
  for (Slot& slot : slots) {
    if (slot.state == 2) {
      ::unlink(slot.name);
    }
  }
}

OutputFile::OutputFile(const std::string& path) : shown_(printable(path, 400)), destination_(path) {
  require<FileError>(!path.empty(), "the output file has an empty name");
  require<FileError>(path.find('\0') == std::string::npos, shown_,
                     ": cannot write: the name has a zero byte");
  struct stat old = {};
  const bool exists = ::stat(path.c_str(), &old) == 0;
  if (!exists && errno != ENOENT) {
    fail("cannot write", errno);
  }
  struct stat link = {};
  if (::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode)) {
    require<FileError>(exists, shown_, ": cannot write: a symbolic link to nothing");
    if (S_ISREG(old.st_mode)) {
      char* resolved = ::realpath(path.c_str(), nullptr);
      if (resolved == nullptr) {
        fail("cannot write", errno);
      }
      destination_ = resolved;
      std::free(resolved);
    }
  }
  require<FileError>(path.back() != '/' && !(exists && S_ISDIR(old.st_mode)), shown_,
                     ": cannot write: it names a directory");
  if (exists && !S_ISREG(old.st_mode)) {
    require<FileError>(S_ISCHR(old.st_mode) || S_ISFIFO(old.st_mode), shown_,
                       ": cannot write: neither a file, a character device nor a pipe");
    file_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (file_ < 0) {
      fail("cannot open", errno);
    }
    return;
  }
  if (exists && ::faccessat(AT_FDCWD, destination_.c_str(), W_OK, AT_EACCESS) != 0) {
    fail("cannot write", errno);
  }
  do {
    temporary_ = temporary_beside(destination_);
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (file_ < 0 && errno == EEXIST);
  if (file_ < 0) {
    const int error = errno;
    temporary_.clear();
    fail("cannot create a file beside it", error);
  }
  slot_ = remember(temporary_);
  if (exists && ::fchmod(file_, old.st_mode & 07777) != 0) {
    fail("cannot keep its permissions", errno);
  }
}

OutputFile::~OutputFile() {
  discard();
}

void OutputFile::write(const void* data, int64_t bytes) {
  require<LogicError>(file_ >= 0, shown_, ": written to after it was closed");
  const auto* from = static_cast<const char*>(data);
  const auto count = static_cast<size_t>(bytes);
  if (buffer_.size() + count > buffer_bytes) {
    flush();
  }
  if (count > buffer_bytes) {
    put(from, count);
  } else {
    buffer_.append(from, count);
  }
  bytes_ += bytes;
}

void OutputFile::commit() {
  require<LogicError>(file_ >= 0, shown_, ": closed twice");
  flush();
  // Devices and pipes have nothing to synchronise and say so.
  if (::fsync(file_) != 0 && !(temporary_.empty() && (errno == EINVAL || errno == EROFS))) {
    fail("cannot write to the disk", errno);
  }
  // After a failing close the descriptor is gone all the same.
  const int status = ::close(file_);
  file_ = -1;
  if (status != 0) {
    fail("cannot close", errno);
  }
  if (temporary_.empty()) {
    return;
  }
  if (::rename(temporary_.c_str(), destination_.c_str()) != 0) {
    fail("cannot rename into place", errno);
  }
  forget(slot_);
  temporary_.clear();
  // The new name itself must survive a crash. The file is complete by now, and some file systems
  // cannot synchronise directories, so this is an attempt only.
  const int directory = ::open(directory_of(destination_).c_str(), O_RDONLY | O_CLOEXEC);
  if (directory >= 0) {
    ::fsync(directory);
    ::close(directory);
  }
}

void OutputFile::flush() {
  put(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void OutputFile::put(const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t done = ::write(file_, data, bytes);
    if (done < 0 && errno == EINTR) {
      continue;
    }
    if (done <= 0) {
      fail("cannot write", done < 0 ? errno : EIO);
    }
    data += done;
    bytes -= static_cast<size_t>(done);
  }
}

void OutputFile::discard() noexcept {
  if (file_ >= 0) {
    ::close(file_);
    file_ = -1;
  }
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
    forget(slot_);
    temporary_.clear();
  }
}

void OutputFile::fail(const char* action, int error) {
  discard();
  throw FileError(join(shown_, ": ", action, ": ", std::strerror(error)));
}

void write_file(const std::string& path, std::string_view contents) {
  OutputFile file(path);
  file.write(contents);
  file.commit();
}

}  // namespace bdlm
