#pragma once
// Elements of a plug-in's host tensors as doubles.

#include <cstdint>
#include <cstring>

#include "conformance/judge/rounding.h"
#include "conformance/plugin/bdlm_plugin.h"
#include "reference/base/small_float.h"

namespace bdlm {

/// A tensor of up to three axes; nothing where the pointer is null.
class TensorAccess {
 public:
  /// `wrapped`: offsets are computed in 32 bits, a mistake.
  explicit TensorAccess(const bdlm_tensor* tensor, bool wrapped = false)
      : tensor_(tensor), wrapped_(wrapped) {}

  bool exists() const { return tensor_ != nullptr; }
  int64_t size(int axis) const { return tensor_->shape[axis]; }
  Dtype dtype() const {
    if (tensor_->dtype.code == 4) {
      return Dtype::bf16;
    }
    return tensor_->dtype.bits == 64   ? Dtype::f64
           : tensor_->dtype.bits == 32 ? Dtype::fp32
                                       : Dtype::fp16;
  }

  double get(int64_t a, int64_t b = 0, int64_t c = 0) const {
    const unsigned char* at = address(a, b, c);
    switch (dtype()) {
      case Dtype::bf16:
        return bf16_value(load<uint16_t>(at));
      case Dtype::fp16:
        return f16_value(load<uint16_t>(at));
      case Dtype::fp32:
        return load<float>(at);
      case Dtype::f64:
        break;
    }
    return load<double>(at);
  }
  int64_t get_int(int64_t a) const { return load<int64_t>(address(a, 0, 0)); }

  void set(double x, int64_t a, int64_t b = 0, int64_t c = 0,
           Rounding rounding = Rounding::nearest_even) const {
    unsigned char* at = address(a, b, c);
    const double y = round_to(x, dtype(), rounding);
    switch (dtype()) {
      case Dtype::bf16:
        return store(at, round_to_bf16(y));
      case Dtype::fp16:
        return store(at, round_to_f16(y));
      case Dtype::fp32:
        return store(at, static_cast<float>(y));
      case Dtype::f64:
        return store(at, y);
    }
  }

 private:
  template <class T>
  static T load(const unsigned char* at) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    return value;
  }
  template <class T>
  static void store(unsigned char* at, T value) {
    std::memcpy(at, &value, sizeof(T));
  }

  unsigned char* address(int64_t a, int64_t b, int64_t c) const {
    const int64_t index[3] = {a, b, c};
    int64_t offset = 0;
    int64_t contiguous = 1;
    for (int axis = tensor_->ndim - 1; axis >= 0; --axis) {
      const int64_t stride = tensor_->strides != nullptr ? tensor_->strides[axis] : contiguous;
      offset += index[axis] * stride;
      contiguous *= tensor_->shape[axis];
    }
    if (wrapped_) {
      offset = static_cast<int32_t>(static_cast<uint32_t>(offset));
    }
    return static_cast<unsigned char*>(tensor_->data) + tensor_->byte_offset +
           offset * (tensor_->dtype.bits / 8);
  }

  const bdlm_tensor* tensor_;
  bool wrapped_;
};

/// Calls f(a, b, c) for every element of a tensor of up to three axes.
template <class F>
void for_each_element(const bdlm_tensor& tensor, const F& f) {
  const auto extent = [&](int axis) { return axis < tensor.ndim ? tensor.shape[axis] : 1; };
  for (int64_t a = 0; a < extent(0); ++a) {
    for (int64_t b = 0; b < extent(1); ++b) {
      for (int64_t c = 0; c < extent(2); ++c) {
        f(a, b, c);
      }
    }
  }
}

}  // namespace bdlm
