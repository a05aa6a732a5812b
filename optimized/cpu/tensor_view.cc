#include "optimized/cpu/tensor_view.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "reference/base/error.h"

namespace bdlm::cpu {
namespace {

constexpr int32_t host = 1;
constexpr int32_t most_axes = 3;

bool is(const bdlm_dtype& dtype, Element element) {
  if (dtype.lanes != 1) {
    return false;
  }
  switch (element) {
    case Element::fp32:
      return dtype.code == 2 && dtype.bits == 32;
    case Element::bf16:
      return dtype.code == 4 && dtype.bits == 16;
    case Element::int64:
      return dtype.code == 0 && dtype.bits == 64;
  }
  return false;
}

int64_t bytes(Element element) {
  return element == Element::fp32 ? 4 : element == Element::bf16 ? 2 : 8;
}

}  // namespace

const char* name(Element element) {
  return element == Element::fp32 ? "fp32" : element == Element::bf16 ? "bf16" : "int64";
}

void widen(int64_t n, const uint16_t* from, float* to) {
  for (int64_t i = 0; i < n; ++i) {
    to[i] = std::bit_cast<float>(static_cast<uint32_t>(from[i]) << 16);
  }
}

void narrow(int64_t n, const float* from, uint16_t* to) {
  for (int64_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<uint32_t>(from[i]);
    // Adds just below half a unit, and the last kept bit: ties go to even.
    const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    const uint32_t nan = (bits >> 16) | 0x40U;
    to[i] = static_cast<uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
  }
}

TensorView::TensorView(float* data, std::initializer_list<int64_t> shape)
    : data_(data), axes_(static_cast<int32_t>(shape.size())) {
  std::copy(shape.begin(), shape.end(), shape_.begin());
  int64_t stride = 1;
  for (int32_t axis = axes_ - 1; axis >= 0; --axis) {
    if (axis < 2) {
      stride_[axis] = stride;
    }
    stride *= shape_[axis];
  }
}

TensorView::TensorView(const int64_t* data, int64_t size)
    : data_(const_cast<int64_t*>(data)),
      axes_(1),
      element_(Element::int64),
      shape_{size, 1, 1},
      stride_{1, 0} {}

TensorView TensorView::of(const bdlm_tensor* tensor, const char* what, int32_t axes,
                          std::initializer_list<Element> allowed) {
  require(tensor != nullptr, what, " is missing");
  require(tensor->device.type == host, what, " is on a device of type ", tensor->device.type,
          "; it must be in host memory, type ", host);
  require(axes <= most_axes && tensor->ndim == axes && tensor->shape != nullptr, what, " has ",
          tensor->ndim, " axes; it must have ", axes);
  TensorView view;
  view.axes_ = axes;
  bool known = false;
  std::string names;
  for (const Element element : allowed) {
    names += names.empty() ? name(element) : std::string(", ") + name(element);
    if (is(tensor->dtype, element)) {
      view.element_ = element;
      known = true;
    }
  }
  require(known, what, " has dtype code ", static_cast<int>(tensor->dtype.code), ", ",
          static_cast<int>(tensor->dtype.bits), " bits; allowed are ", names);
  bool empty = false;
  for (int32_t axis = 0; axis < axes; ++axis) {
    view.shape_[axis] = tensor->shape[axis];
    require(view.shape_[axis] >= 0, what, " has ", view.shape_[axis], " elements along axis ", axis,
            "; allowed are 0 or more");
    empty = empty || view.shape_[axis] == 0;
  }
  int64_t stride = 1;
  for (int32_t axis = axes - 1; axis >= 0; --axis) {
    const int64_t given = tensor->strides != nullptr ? tensor->strides[axis] : stride;
    require(axis < axes - 1 || given == 1 || view.shape_[axis] <= 1, what, " has a last stride of ",
            given, "; it must be 1");
    if (axis < 2) {
      view.stride_[axis] = given;
    }
    stride *= view.shape_[axis];
  }
  require(empty || tensor->data != nullptr, what, " has no data");
  view.data_ = static_cast<char*>(tensor->data) + tensor->byte_offset;
  const auto address = reinterpret_cast<uintptr_t>(view.data_);
  require(empty || address % static_cast<uintptr_t>(bytes(view.element_)) == 0, what,
          " does not begin at a multiple of its element size");
  return view;
}

void TensorView::load(int64_t n, float* to, int64_t i, int64_t j) const {
  if (element_ == Element::bf16) {
    widen(n, static_cast<const uint16_t*>(data_) + offset(i, j), to);
  } else {
    std::copy_n(static_cast<const float*>(data_) + offset(i, j), n, to);
  }
}

void TensorView::store(int64_t n, const float* from, int64_t i, int64_t j) const {
  if (element_ == Element::bf16) {
    narrow(n, from, static_cast<uint16_t*>(data_) + offset(i, j));
  } else {
    std::copy_n(from, n, static_cast<float*>(data_) + offset(i, j));
  }
}

void TensorView::clear(int64_t n, int64_t i, int64_t j) const {
  if (element_ == Element::bf16) {
    std::fill_n(static_cast<uint16_t*>(data_) + offset(i, j), n, uint16_t{0});
  } else {
    std::fill_n(static_cast<float*>(data_) + offset(i, j), n, 0.0F);
  }
}

void TensorView::expect(const char* what, std::initializer_list<int64_t> shape) const {
  const auto shown = [](const auto& begin, int64_t count) {
    std::string text = "(";
    for (int64_t i = 0; i < count; ++i) {
      text += (i > 0 ? ", " : "") + std::to_string(begin[i]);
    }
    return text + ")";
  };
  const auto count = static_cast<int64_t>(shape.size());
  require(count == axes_ && std::equal(shape.begin(), shape.end(), shape_.begin()), what,
          " has shape ", shown(shape_.begin(), axes_), "; it must be ",
          shown(shape.begin(), count));
}

}  // namespace bdlm::cpu
