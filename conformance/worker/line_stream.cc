#include "conformance/worker/line_stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace bdlm {
namespace {

/// Milliseconds to a deadline, rounded up; -1 without one.
int until(const std::optional<Deadline>& deadline) {
  if (!deadline) {
    return -1;
  }
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

}  // namespace

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = send(file, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written < 0 && errno == ENOTSOCK) {
      written = write(file, bytes.data(), bytes.size());
    }
    if (written < 0 && errno != EINTR) {
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(std::max<ssize_t>(written, 0)));
  }
  return true;
}

LineReader::Got LineReader::next(std::string& line, std::optional<Deadline> deadline) {
  while (true) {
    const size_t feed = buffer_.find('\n', searched_);
    if (feed != std::string::npos) {
      line = buffer_.substr(0, feed);
      buffer_.erase(0, feed + 1);
      searched_ = 0;
      return Got::line;
    }
    searched_ = buffer_.size();
    if (buffer_.size() > most_) {
      return Got::end;
    }
    pollfd waiting{file_, POLLIN, 0};
    const int ready = poll(&waiting, 1, until(deadline));
    if (ready == 0) {
      return Got::late;
    }
    if (ready < 0) {
      if (errno == EINTR) {
        continue;
      }
      return Got::end;
    }
    char bytes[1 << 16];
    const ssize_t count = read(file_, bytes, sizeof bytes);
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) {
      return Got::end;
    }
    buffer_.append(bytes, static_cast<size_t>(std::max<ssize_t>(count, 0)));
  }
}

}  // namespace bdlm
