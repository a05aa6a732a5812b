#include "reference/parallel/mpi_transfer.h"

#include <array>
#include <utility>

#include "reference/parallel/mpi_session.h"

namespace bdlm {

MpiBytes::MpiBytes(int64_t bytes, int64_t largest_count) {
  if (bytes <= largest_count) {
    count_ = static_cast<int>(bytes);
    return;
  }
  const int64_t blocks = bytes / largest_count;
  require(blocks <= largest_count, "a payload of ", bytes, " bytes; at most ",
          largest_count * largest_count, " are allowed");
  // `blocks` runs of largest_count bytes, then the rest.
  MPI_Datatype block = MPI_DATATYPE_NULL;
  MPI_Datatype body = MPI_DATATYPE_NULL;
  require_mpi(MPI_Type_contiguous(static_cast<int>(largest_count), MPI_BYTE, &block),
              "MPI_Type_contiguous");
  require_mpi(MPI_Type_contiguous(static_cast<int>(blocks), block, &body), "MPI_Type_contiguous");
  const std::array<int, 2> lengths{1, static_cast<int>(bytes % largest_count)};
  const std::array<MPI_Aint, 2> offsets{0, static_cast<MPI_Aint>(blocks * largest_count)};
  const std::array<MPI_Datatype, 2> parts{body, MPI_BYTE};
  require_mpi(MPI_Type_create_struct(2, lengths.data(), offsets.data(), parts.data(), &type_),
              "MPI_Type_create_struct");
  require_mpi(MPI_Type_commit(&type_), "MPI_Type_commit");
  MPI_Type_free(&block);
  MPI_Type_free(&body);
  count_ = 1;
}

MpiBytes::~MpiBytes() {
  if (type_ != MPI_BYTE) {
    MPI_Type_free(&type_);
  }
}

MpiBytes::MpiBytes(MpiBytes&& other) noexcept
    : count_(other.count_), type_(std::exchange(other.type_, MPI_BYTE)) {}

void abandon(std::unique_ptr<MpiTransfer> transfer) {
  // Never destroyed: MPI's end comes after the destructors of static objects, or not at all.
  static auto* const kept = new std::vector<std::unique_ptr<MpiTransfer>>;
  kept->push_back(std::move(transfer));
}

}  // namespace bdlm
