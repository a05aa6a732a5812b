#pragma once
// One tensor of a call, what surrounds it, and what has become of both.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "conformance/plugin/tensors.h"

namespace bdlm {

/// What the backend may do with a tensor.
enum class TensorRole : uint8_t { input, output, state, workspace, array };

/// The bytes of a tensor and of what lies around it, the image: as they were before the call, and
/// where they are on the device. Bytes of an image are counted from its beginning.
class TensorImage {
 public:
  /// Takes memory and poisons the image, not yet on the device. `number` tells apart the tensors of
  /// a call. Workspace and arrays are contiguous and aligned whatever the layout says, and arrays
  /// are on the host. Throws BackendError where the backend has no memory.
  TensorImage(const Backend& backend, const TensorLayout& layout, uint64_t number, std::string name,
              TensorRole role, bdlm_dtype dtype, std::vector<int64_t> shape);
  ~TensorImage();
  TensorImage(const TensorImage&) = delete;
  TensorImage& operator=(const TensorImage&) = delete;

  TensorRole role() const { return role_; }
  bdlm_dtype dtype() const { return dtype_; }
  bdlm_tensor* view() { return &view_; }
  /// "input q".
  std::string title() const;
  int64_t elements() const { return rows_ * row_bytes_ / element_bytes(); }

  /// Puts values in the place of the tensor's elements, not yet on the device. Throws InputError
  /// where one of them is no number of the tensor's format.
  void fill(std::span<const double> values);
  /// The same with bytes of elements.
  void fill_bytes(std::span<const std::byte> values);
  /// To the device.
  void upload();
  /// The image as it is on the device now.
  std::vector<std::byte> download() const;
  /// The elements of an image, contiguous.
  std::vector<std::byte> elements_of(const std::vector<std::byte>& image) const;
  /// Does nothing where the tensor is not on the host.
  void protect(GuardedMemory::Protection protection);

  // What `after`, a downloaded image, shows; empty where it shows nothing. See CallTensors::check.
  std::string changed_inside(const std::vector<std::byte>& after) const;
  std::string changed_outside(const std::vector<std::byte>& after) const;
  std::string left_unwritten(const std::vector<std::byte>& after) const;

 private:
  bool plain() const { return role_ == TensorRole::workspace || role_ == TensorRole::array; }
  int64_t element_bytes() const { return dtype_.bits / 8; }
  /// Where an element, counted in the order of the indices, lies in the image.
  int64_t at(int64_t element) const {
    const int64_t in_row = row_bytes_ / element_bytes();
    return offset_ + element / in_row * stride_bytes_ + element % in_row * element_bytes();
  }
  void lay_out(const TensorLayout& layout);
  void take_memory(int64_t misalignment);

  const Backend& backend_;
  std::string name_;
  TensorRole role_;
  bdlm_dtype dtype_;
  std::vector<int64_t> shape_, strides_;
  // A row is what lies behind one index of the first axis; one axis alone is one row.
  int64_t rows_ = 0;
  int64_t row_bytes_ = 0;     // of a row's elements
  int64_t stride_bytes_ = 0;  // from one row to the next
  int64_t extent_ = 0;        // bytes from the first element to the end of the last
  int64_t offset_ = 0;        // of the first element in the image
  std::vector<std::byte> before_;
  std::unique_ptr<GuardedMemory> guarded_;  // on the host
  void* allocated_ = nullptr;               // elsewhere
  std::byte* memory_ = nullptr;             // the image on the device
  bdlm_tensor view_{};
};

/// Contiguous elements with these values, rounded to nearest.
std::vector<std::byte> encode_elements(std::span<const double> values, bdlm_dtype dtype);
/// The values of contiguous elements.
std::vector<double> decode_elements(std::span<const std::byte> elements, bdlm_dtype dtype);

}  // namespace bdlm
