#pragma once
// What an MPI transfer needs to stay alive until it is complete.

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reference/schedule/communicator.h"

namespace bdlm {

/// `bytes` bytes as an MPI count and type. MPI counts are int; beyond `largest_count` the whole is
/// one element of a derived type.
class MpiBytes {
 public:
  MpiBytes(int64_t bytes, int64_t largest_count);
  ~MpiBytes();
  MpiBytes(MpiBytes&& other) noexcept;
  MpiBytes(const MpiBytes&) = delete;
  MpiBytes& operator=(const MpiBytes&) = delete;
  MpiBytes& operator=(MpiBytes&&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_ = 0;
  MPI_Datatype type_ = MPI_BYTE;
};

/// A non-blocking operation: its requests, and all memory of ours that MPI may still touch.
struct MpiTransfer {
  /// "operation 7 (all_gather of 12 f64)".
  std::string what;
  /// Bytes that this rank sends and receives.
  int64_t bytes = 0;
  std::vector<MPI_Request> requests;
  std::vector<MpiBytes> types;
  std::vector<std::byte> incoming;
  std::vector<std::byte> outgoing;
  /// Where the sum over ranks of `incoming` goes; of a reduce-scatter.
  Payload sum;
};

/// Keeps a transfer that will never complete alive until the process ends, because MPI may still
/// write to its memory.
void abandon(std::unique_ptr<MpiTransfer> transfer);

}  // namespace bdlm
