#include "reference/parallel/mpi_session.h"

#include <array>

namespace bdlm {

std::string mpi_error_text(int code) {
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) {
    return join("MPI error ", code);
  }
  return {text.data(), static_cast<size_t>(length)};
}

MpiSession::MpiSession() {
  int initialized = 0;
  require_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
  if (initialized == 0) {
    int provided = MPI_THREAD_SINGLE;
    require_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init");
    owner_ = true;
    require<CommunicationError>(provided >= MPI_THREAD_FUNNELED,
                                "MPI offers no support for programs with threads");
  }
  require_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
              "MPI_Comm_set_errhandler");
}

MpiSession::~MpiSession() {
  if (owner_) {
    MPI_Finalize();  // its error code has nobody to go to
  }
}

}  // namespace bdlm
