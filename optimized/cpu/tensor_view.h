#pragma once
// Tensors of the plug-in interface, checked once, read and written as floats.

#include <array>
#include <cstdint>
#include <initializer_list>

#include "conformance/plugin/bdlm_plugin.h"

namespace bdlm::cpu {

enum class Element : uint8_t { fp32, bf16, int64 };
const char* name(Element element);

/// bf16 as the upper half of a float: exact one way, rounded to nearest even the other.
void widen(int64_t n, const uint16_t* from, float* to);
void narrow(int64_t n, const float* from, uint16_t* to);

/// A tensor of up to three axes with the last one contiguous.
class TensorView {
 public:
  TensorView() = default;
  /// A contiguous tensor of floats.
  TensorView(float* data, std::initializer_list<int64_t> shape);
  /// A contiguous tensor of one axis of integers, which are only read.
  TensorView(const int64_t* data, int64_t size);

  /// Throws InputError, naming the tensor by `what`, unless it is on the host, has `axes` axes, one
  /// of the element types in `allowed`, a last stride of 1, and data if it has elements.
  static TensorView of(const bdlm_tensor* tensor, const char* what, int32_t axes,
                       std::initializer_list<Element> allowed);

  int64_t size(int32_t axis) const { return shape_[axis]; }
  Element element() const { return element_; }
  bool exists() const { return axes_ > 0; }

  /// n values as floats: [i, i + n) of one axis, (i, [j, j + n)) of two, (i, j, [0, n)) of three.
  void load(int64_t n, float* to, int64_t i, int64_t j = 0) const;
  void store(int64_t n, const float* from, int64_t i, int64_t j = 0) const;
  /// n zeros.
  void clear(int64_t n, int64_t i, int64_t j = 0) const;
  /// Where [i, 0) of a tensor of floats of two axes lies, or null where elements are of another
  /// type.
  float* floats(int64_t i) const {
    return element_ == Element::fp32 ? static_cast<float*>(data_) + offset(i, 0) : nullptr;
  }
  /// Elements between rows.
  int64_t pitch() const { return stride_[0]; }
  /// An element of an integer tensor of one axis.
  int64_t integer(int64_t i) const { return static_cast<const int64_t*>(data_)[i * stride_[0]]; }

  /// Throws InputError unless the shape is this one.
  void expect(const char* what, std::initializer_list<int64_t> shape) const;

 private:
  int64_t offset(int64_t i, int64_t j) const { return i * stride_[0] + j * stride_[1]; }

  void* data_ = nullptr;
  int32_t axes_ = 0;
  Element element_ = Element::fp32;
  std::array<int64_t, 3> shape_{1, 1, 1};
  // Of the first two axes.
  std::array<int64_t, 2> stride_{0, 0};
};

}  // namespace bdlm::cpu
