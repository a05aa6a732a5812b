#pragma once
// MPI's beginning and end, and its error codes.

#include <mpi.h>

#include "reference/base/error.h"

namespace bdlm {

/// MPI's own description of an error code.
std::string mpi_error_text(int code);

/// Throws CommunicationError with the joined message and MPI's description unless `code` is
/// success.
template <class... Parts>
void require_mpi(int code, const Parts&... parts) {
  if (code != MPI_SUCCESS) {
    throw CommunicationError(join(parts..., ": ", mpi_error_text(code)));
  }
}

/// Initialises MPI, unless it is already, and finalises it at the end of its life if it began it.
/// One a program. Errors on MPI_COMM_WORLD are returned, not fatal. MPI calls are for one thread
/// only.
class MpiSession {
 public:
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

 private:
  bool owner_ = false;
};

}  // namespace bdlm
