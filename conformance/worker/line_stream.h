#pragma once
// Lines over a file descriptor, with a time limit.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bdlm {

using Deadline = std::chrono::steady_clock::time_point;

/// Writes all bytes, through interrupts and partial writes. False where the other side is gone or
/// an error came up. Sockets raise no SIGPIPE.
bool write_all(int file, std::string_view bytes);

/// Reads lines. Does not own the descriptor.
class LineReader {
 public:
  /// A line longer than `most` bytes is an end, as if the other side had closed.
  explicit LineReader(int file, size_t most = size_t{64} << 20) : file_(file), most_(most) {}

  enum class Got : uint8_t { line, late, end };
  /// The next line, without its line feed, in `line`; `late` where none is whole at the deadline,
  /// `end` where the other side has closed, or an error came up. What is after the last line feed
  /// is no line. Without a deadline it waits for ever.
  Got next(std::string& line, std::optional<Deadline> deadline);
  /// Bytes of a line that has not ended.
  const std::string& rest() const { return buffer_; }

 private:
  int file_;
  size_t most_;
  std::string buffer_;
  size_t searched_ = 0;  // bytes of the buffer that hold no line feed
};

}  // namespace bdlm
