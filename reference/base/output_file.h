#pragma once
// Files that are complete or absent.

#include <cstdint>
#include <string>
#include <string_view>

namespace bdlm {

/// Writes a file beside its destination and renames it into place, so that a reader sees the old
/// contents or the new ones and a failure leaves nothing behind.
///
/// - A symbolic link stays one: the file that it points to is replaced.
/// - An existing file keeps its permissions; a read-only one is an error.
/// - A character device or a pipe is written to directly (it cannot be replaced), so `/dev/full`
///   fails as a full disk does. Directories, block devices and sockets are refused.
///
/// All errors are FileErrors with the path and the system's reason. A limit on file sizes shows as
/// an error only if the program ignores SIGXFSZ, and a closed pipe only if it ignores SIGPIPE; the
/// signal handling of a process is not a library's to change.
class OutputFile {
 public:
  /// Opens the temporary file.
  explicit OutputFile(const std::string& path);
  /// Removes the temporary file unless `commit` has returned.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Appends. Data may stay buffered until `commit`.
  void write(const void* data, int64_t bytes);
  void write(std::string_view text) { write(text.data(), static_cast<int64_t>(text.size())); }
  /// Writes out everything, waits until it is on the disk, and renames the file into place.
  void commit();

  /// Removes the temporary files of all OutputFiles of this process, for a signal handler: safe
  /// there, and the program is expected to end. Of many open at once (64) the rest is left.
  static void remove_temporaries() noexcept;

  /// Bytes appended so far.
  int64_t bytes() const { return bytes_; }

 private:
  void flush();
  void put(const char* data, size_t bytes);
  void discard() noexcept;
  [[noreturn]] void fail(const char* action, int error);

  std::string shown_;        // the path, for messages
  std::string destination_;  // with symbolic links resolved
  std::string temporary_;    // empty when written to directly
  int slot_ = -1;            // where remove_temporaries finds it
  int file_ = -1;
  std::string buffer_;
  int64_t bytes_ = 0;
};

/// Writes a whole file through OutputFile.
void write_file(const std::string& path, std::string_view contents);

}  // namespace bdlm
