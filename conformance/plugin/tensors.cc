#include "conformance/plugin/tensors.h"

#include "conformance/plugin/tensor_image.h"
#include "reference/base/error.h"

namespace bdlm {
namespace {

bool read_only(const TensorImage& tensor) {
  return tensor.role() == TensorRole::input || tensor.role() == TensorRole::array;
}

}  // namespace

bdlm_dtype plugin_dtype(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return {4, 16, 1};
    case Dtype::fp16:
      return {2, 16, 1};
    case Dtype::fp32:
      return {2, 32, 1};
    case Dtype::f64:
      return {2, 64, 1};
  }
  throw LogicError(join("dtype ", static_cast<int>(dtype), " does not exist"));
}

struct CallTensors::Impl {
  const Backend& backend;
  TensorLayout layout;
  std::vector<std::unique_ptr<TensorImage>> tensors;

  TensorImage& make(std::string name, TensorRole role, bdlm_dtype dtype,
                    std::vector<int64_t> shape) {
    tensors.push_back(std::make_unique<TensorImage>(
        backend, layout, tensors.size(), std::move(name), role, dtype, std::move(shape)));
    return *tensors.back();
  }

  const TensorImage& of(const bdlm_tensor* view) const {
    for (const auto& tensor : tensors) {
      if (tensor->view() == view) {
        return *tensor;
      }
    }
    throw LogicError("this tensor belongs to another call");
  }
};

CallTensors::CallTensors(const Backend& backend, const TensorLayout& layout)
    : impl_(new Impl{backend, layout, {}}) {
  require(layout.row_padding >= 0 && layout.byte_offset >= 0, "row_padding is ", layout.row_padding,
          " and byte_offset is ", layout.byte_offset, "; allowed is 0 or more");
  require(layout.misalignment >= 0 && layout.misalignment < 256, "misalignment is ",
          layout.misalignment, "; allowed is [0, 256)");
}

CallTensors::~CallTensors() = default;

bdlm_tensor* CallTensors::input(std::string name, std::span<const double> values, Dtype dtype,
                                std::vector<int64_t> shape) {
  TensorImage& tensor =
      impl_->make(std::move(name), TensorRole::input, plugin_dtype(dtype), std::move(shape));
  tensor.fill(values);
  tensor.upload();
  return tensor.view();
}

bdlm_tensor* CallTensors::input(std::string name, std::span<const int64_t> values,
                                std::vector<int64_t> shape) {
  TensorImage& tensor =
      impl_->make(std::move(name), TensorRole::input, bdlm_dtype{0, 64, 1}, std::move(shape));
  tensor.fill_bytes(std::as_bytes(values));
  tensor.upload();
  return tensor.view();
}

bdlm_tensor* CallTensors::output(std::string name, Dtype dtype, std::vector<int64_t> shape) {
  TensorImage& tensor =
      impl_->make(std::move(name), TensorRole::output, plugin_dtype(dtype), std::move(shape));
  tensor.upload();
  return tensor.view();
}

bdlm_tensor* CallTensors::in_out(std::string name, std::span<const double> values, Dtype dtype,
                                 std::vector<int64_t> shape) {
  TensorImage& tensor =
      impl_->make(std::move(name), TensorRole::state, plugin_dtype(dtype), std::move(shape));
  tensor.fill(values);
  tensor.upload();
  return tensor.view();
}

void* CallTensors::workspace(uint64_t bytes) {
  if (bytes == 0) {
    return nullptr;
  }
  require<Error>(bytes <= uint64_t{1} << 46, "a workspace of ", bytes, " bytes is asked for");
  TensorImage& tensor = impl_->make("of the call", TensorRole::workspace, bdlm_dtype{0, 8, 1},
                                    {static_cast<int64_t>(bytes)});
  tensor.upload();
  return tensor.view()->data;
}

const void* CallTensors::host_bytes(std::string name, std::span<const std::byte> values) {
  TensorImage& tensor = impl_->make(std::move(name), TensorRole::array, bdlm_dtype{0, 8, 1},
                                    {static_cast<int64_t>(values.size())});
  tensor.fill_bytes(values);
  tensor.upload();
  return tensor.view()->data;
}

void CallTensors::protect() {
  for (const auto& tensor : impl_->tensors) {
    if (read_only(*tensor)) {
      tensor->protect(GuardedMemory::Protection::read_only);
    }
  }
}

void CallTensors::end_host_arrays() {
  for (const auto& tensor : impl_->tensors) {
    if (tensor->role() == TensorRole::array) {
      tensor->protect(GuardedMemory::Protection::inaccessible);
    }
  }
}

std::string CallTensors::check(After after) {
  std::vector<std::vector<std::byte>> images;
  for (const auto& tensor : impl_->tensors) {
    tensor->protect(GuardedMemory::Protection::writable);
    images.push_back(tensor->download());
  }
  const auto first_of = [&](const auto& look) {
    for (size_t i = 0; i < images.size(); ++i) {
      std::string found = look(*impl_->tensors[i], images[i]);
      if (!found.empty()) {
        return found;
      }
    }
    return std::string();
  };
  using Image = std::vector<std::byte>;
  // What should not have been touched comes before what should have been.
  std::string found = first_of([](const TensorImage& tensor, const Image& image) {
    return read_only(tensor) ? tensor.changed_inside(image) : std::string();
  });
  if (found.empty()) {
    found = first_of([](const TensorImage& tensor, const Image& image) {
      return tensor.changed_outside(image);
    });
  }
  if (found.empty() && after == After::refusal) {
    found = first_of([](const TensorImage& tensor, const Image& image) {
      const bool result = tensor.role() == TensorRole::output || tensor.role() == TensorRole::state;
      return result ? tensor.changed_inside(image) : std::string();
    });
    found += found.empty() ? "" : ", although the entry returned BDLM_UNSUPPORTED";
  }
  if (found.empty() && after == After::success) {
    found = first_of([](const TensorImage& tensor, const Image& image) {
      return tensor.role() == TensorRole::output ? tensor.left_unwritten(image) : std::string();
    });
  }
  return found;
}

std::vector<std::byte> CallTensors::bytes(const bdlm_tensor* tensor) const {
  const TensorImage& image = impl_->of(tensor);
  return image.elements_of(image.download());
}

std::vector<double> CallTensors::read(const bdlm_tensor* tensor) const {
  return decode_elements(bytes(tensor), impl_->of(tensor).dtype());
}

}  // namespace bdlm
