#pragma once
// The errors that the library throws. Library code neither prints nor aborts.

#include <sstream>
#include <stdexcept>
#include <string>

namespace bdlm {

/// Base of every error of this library. The message is one line.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The caller's input is wrong. The message says what is wrong, which value it has and what is
/// allowed. Programs exit with status 2.
class InputError : public Error {
 public:
  using Error::Error;
};

/// A file could not be read or written, or its contents are malformed. Exit status 2.
class FileError : public Error {
 public:
  using Error::Error;
};

/// A transport failed: a peer is missing, late, or sends something else than was agreed.
class CommunicationError : public Error {
 public:
  using Error::Error;
};

/// A plan or a program state that the house's own code should never produce.
class LogicError : public Error {
 public:
  using Error::Error;
};

/// Joins its arguments, as a stream prints them, into one string.
template <class... Parts>
std::string join(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// Throws `E` with the joined message unless `condition` holds.
template <class E = InputError, class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) {
    throw E(join(parts...));
  }
}

}  // namespace bdlm
