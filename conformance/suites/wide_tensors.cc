#include "conformance/suites/wide_tensors.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <numeric>

#include "conformance/plugin/tensors.h"
#include "conformance/suites/partial_sums.h"
#include "reference/base/error.h"
#include "reference/base/small_float.h"

namespace bdlm {

struct WideTensors::Mapped {
  void* memory = MAP_FAILED;
  size_t bytes = 0;
  bdlm_tensor tensor{};
  Dtype dtype = Dtype::fp32;
  std::vector<int64_t> shape, strides;
  ~Mapped() {
    if (memory != MAP_FAILED) {
      munmap(memory, bytes);
    }
  }
  unsigned char* row(int64_t i) const {
    return static_cast<unsigned char*>(tensor.data) + i * row_stride * size_of(dtype);
  }
  int64_t width() const {
    return std::accumulate(shape.begin() + 1, shape.end(), int64_t{1}, std::multiplies<>());
  }
};

WideTensors::WideTensors() = default;
WideTensors::~WideTensors() = default;

bdlm_tensor* WideTensors::output(Dtype dtype, std::vector<int64_t> rest) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const int64_t width = std::accumulate(rest.begin(), rest.end(), int64_t{1}, std::multiplies<>());
  return input(std::vector<double>(rows * width, nan), dtype, std::move(rest));
}

bdlm_tensor* WideTensors::input(const std::vector<double>& values, Dtype dtype,
                                std::vector<int64_t> rest) {
  auto mapped = std::make_unique<Mapped>();
  mapped->dtype = dtype;
  mapped->shape = {rows};
  mapped->shape.insert(mapped->shape.end(), rest.begin(), rest.end());
  mapped->strides.assign(mapped->shape.size(), 1);
  for (size_t axis = mapped->shape.size() - 1; axis-- > 1;) {
    mapped->strides[axis] = mapped->strides[axis + 1] * mapped->shape[axis + 1];
  }
  mapped->strides[0] = row_stride;
  // 2^31 elements before the first row, and all rows but the last one's stride.
  const int64_t before = 2 * row_stride * size_of(dtype);
  const int64_t width = mapped->width();
  mapped->bytes = static_cast<size_t>(2 * before + width * size_of(dtype));
  mapped->memory = mmap(nullptr, mapped->bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped->memory == MAP_FAILED) {
    unavailable_ = join("address space of ", mapped->bytes >> 30,
                        " GiB cannot be mapped: ", std::strerror(errno));
    tensors_.push_back(std::move(mapped));
    return nullptr;
  }
  bdlm_tensor& t = mapped->tensor;
  t.data = static_cast<unsigned char*>(mapped->memory) + before;
  t.device = {1, 0};
  t.ndim = static_cast<int32_t>(mapped->shape.size());
  t.dtype = plugin_dtype(dtype);
  t.shape = mapped->shape.data();
  t.strides = mapped->strides.data();
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < width; ++c) {
      const double x = values.at(i * width + c);
      unsigned char* at = mapped->row(i) + c * size_of(dtype);
      if (dtype == Dtype::f64) {
        std::memcpy(at, &x, sizeof x);
      } else if (dtype == Dtype::fp32) {
        const auto y = static_cast<float>(x);
        std::memcpy(at, &y, sizeof y);
      } else {
        const uint16_t y = dtype == Dtype::bf16 ? round_to_bf16(x) : round_to_f16(x);
        std::memcpy(at, &y, sizeof y);
      }
    }
  }
  tensors_.push_back(std::move(mapped));
  return &tensors_.back()->tensor;
}

std::vector<double> WideTensors::read(const bdlm_tensor* tensor) const {
  std::vector<double> out;
  for (const auto& mapped : tensors_) {
    if (&mapped->tensor != tensor) {
      continue;
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t c = 0; c < mapped->width(); ++c) {
        const unsigned char* at = mapped->row(i) + c * size_of(mapped->dtype);
        if (mapped->dtype == Dtype::f64) {
          double x = 0;
          std::memcpy(&x, at, sizeof x);
          out.push_back(x);
        } else if (mapped->dtype == Dtype::fp32) {
          float x = 0;
          std::memcpy(&x, at, sizeof x);
          out.push_back(x);
        } else {
          uint16_t x = 0;
          std::memcpy(&x, at, sizeof x);
          out.push_back(mapped->dtype == Dtype::bf16 ? bf16_value(x) : f16_value(x));
        }
      }
    }
  }
  return out;
}

}  // namespace bdlm
