#pragma once
// Writing safetensors files: the same tensors always become the same bytes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/base/output_file.h"
#include "reference/base/safetensors.h"

namespace bdlm {

struct TensorSpec {
  std::string name;
  DType dtype = DType::f64;
  /// Empty for a scalar.
  std::vector<int64_t> shape;
};

struct SafetensorsLayout {
  /// In the order of their data.
  std::vector<TensorInfo> tensors;
  /// What a file begins with: the 8 bytes of the length and the JSON text, padded with spaces to a
  /// multiple of 8.
  std::string header;
};

/// Data lie in the order of element sizes, the largest first, and of names within one size, so that
/// every tensor is aligned to its elements. In the header names are sorted. Throws InputError,
/// which begins with `source`, for names, shapes and metadata that a reader would refuse.
SafetensorsLayout lay_out_safetensors(std::vector<TensorSpec> tensors,
                                      const TensorMetadata& metadata, const std::string& source);

/// `values` as a floating dtype, each rounded once, to nearest, ties to even. Throws InputError,
/// which begins with `place`, for another dtype and for a finite value that would become infinite.
std::vector<std::byte> rounded_bytes(DType dtype, std::span<const double> values,
                                     const std::string& place);

/// Writes a file piece by piece, so that no tensor need be in memory as a whole. The file appears
/// when it is complete. Throws InputError for wrong input, FileError as OutputFile does.
class SafetensorsWriter {
 public:
  /// Lays out the file and writes its header.
  SafetensorsWriter(const std::string& path, std::vector<TensorSpec> tensors,
                    const TensorMetadata& metadata = {});

  /// The order in which data must be appended.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }

  /// Appends to the tensor `name`, which must be the next that is not complete.
  void append_bytes(std::string_view name, const void* data, int64_t bytes);
  /// For floating dtypes; see rounded_bytes.
  void append_rounded(std::string_view name, std::span<const double> values);
  /// Throws InputError unless all data have been appended.
  void commit();

 private:
  const TensorInfo& next(std::string_view name, int64_t bytes) const;

  OutputFile file_;
  std::string shown_;  // the path, for messages
  std::vector<TensorInfo> tensors_;
  size_t at_ = 0;        // the tensor that is being written
  int64_t written_ = 0;  // its bytes so far
};

struct TensorData {
  TensorSpec spec;
  /// As the file has them.
  std::vector<std::byte> bytes;
};

/// Writes a whole file; the tensors may come in any order.
void write_safetensors(const std::string& path, const std::vector<TensorData>& tensors,
                       const TensorMetadata& metadata = {});

}  // namespace bdlm
