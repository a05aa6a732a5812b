#include "conformance/suites/wide_tensors.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <numeric>

#include "conformance/plugin/tensor_image.h"
#include "conformance/plugin/tensors.h"
#include "reference/base/error.h"

namespace bdlm {
namespace {

/// Tensors begin so far apart; a row is smaller.
constexpr int64_t slot_bytes = int64_t{1} << 16;
constexpr int64_t slots = 64;

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

struct WideTensors::Tensor {
  bdlm_tensor tensor{};
  Dtype dtype = Dtype::fp32;
  std::vector<int64_t> shape, strides;

  int64_t row_bytes() const { return product(shape) / rows * size_of(dtype); }
  std::byte* row(int64_t i) const {
    return static_cast<std::byte*>(tensor.data) + i * row_stride * size_of(dtype);
  }
};

WideTensors::WideTensors(const Backend& backend, int64_t largest) : backend_(backend) {
  // 2^31 elements before the first rows, as many up to the last ones.
  const int64_t before = 2 * row_stride * largest;
  bytes_ = static_cast<size_t>(2 * before + slots * slot_bytes);
  void* memory = nullptr;
  if (backend.on_host()) {
    memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      unavailable_ =
          join("address space of ", bytes_ >> 30, " GiB cannot be mapped: ", std::strerror(errno));
      return;
    }
  } else {
    const bdlm_status code = backend.entries().allocate(backend.context(), bytes_, &memory);
    if (code != BDLM_OK) {
      unavailable_ = join("the device has no ", bytes_ >> 30,
                          " GiB in one piece: ", backend.status(code).message);
      return;
    }
  }
  memory_ = static_cast<std::byte*>(memory);
  origin_ = memory_ + before;
}

WideTensors::~WideTensors() {
  if (memory_ == nullptr) {
    return;
  }
  if (backend_.on_host()) {
    munmap(memory_, bytes_);
  } else {
    backend_.entries().release(backend_.context(), memory_);
  }
}

void WideTensors::write(void* to, const void* from, size_t bytes) const {
  if (backend_.on_host()) {
    std::memcpy(to, from, bytes);
  } else {
    backend_.check("copy_in", backend_.entries().copy_in(backend_.context(), to, from, bytes));
  }
}

void WideTensors::read(void* to, const void* from, size_t bytes) const {
  if (backend_.on_host()) {
    std::memcpy(to, from, bytes);
  } else {
    backend_.check("copy_out", backend_.entries().copy_out(backend_.context(), to, from, bytes));
  }
}

bdlm_tensor* WideTensors::output(Dtype dtype, std::vector<int64_t> rest) {
  const std::vector<double> values(rows * product(rest), std::numeric_limits<double>::quiet_NaN());
  return input(values, dtype, std::move(rest));
}

bdlm_tensor* WideTensors::input(const std::vector<double>& values, Dtype dtype,
                                std::vector<int64_t> rest) {
  auto tensor = std::make_unique<Tensor>();
  tensor->dtype = dtype;
  tensor->shape = {rows};
  tensor->shape.insert(tensor->shape.end(), rest.begin(), rest.end());
  tensor->strides.assign(tensor->shape.size(), 1);
  for (size_t axis = tensor->shape.size() - 1; axis-- > 1;) {
    tensor->strides[axis] = tensor->strides[axis + 1] * tensor->shape[axis + 1];
  }
  tensor->strides[0] = row_stride;
  const int64_t width = product(rest);
  require<LogicError>(static_cast<int64_t>(values.size()) == rows * width, "a tensor of ", rows,
                      " rows of ", width, " numbers gets ", values.size());
  const int64_t row_bytes = width * size_of(dtype);
  const auto slot = static_cast<int64_t>(tensors_.size());
  require<LogicError>(row_bytes <= slot_bytes && slot < slots, "tensor ", slot, " has rows of ",
                      row_bytes, " bytes");
  bdlm_tensor& t = tensor->tensor;
  t.data = origin_ + slot * slot_bytes;
  t.device = backend_.entries().device;
  t.ndim = static_cast<int32_t>(tensor->shape.size());
  t.dtype = plugin_dtype(dtype);
  t.shape = tensor->shape.data();
  t.strides = tensor->strides.data();
  // Where a wrapped index would find the last row.
  const std::vector<std::byte> zeros(row_bytes);
  write(tensor->row(1 - rows), zeros.data(), zeros.size());
  for (int64_t i = 0; i < rows; ++i) {
    const std::vector<std::byte> row =
        encode_elements({values.data() + i * width, static_cast<size_t>(width)}, t.dtype);
    write(tensor->row(i), row.data(), row.size());
  }
  tensors_.push_back(std::move(tensor));
  return &tensors_.back()->tensor;
}

std::vector<double> WideTensors::read(const bdlm_tensor* tensor) const {
  std::vector<double> out;
  for (const auto& own : tensors_) {
    if (&own->tensor != tensor) {
      continue;
    }
    std::vector<std::byte> row(own->row_bytes());
    for (int64_t i = 0; i < rows; ++i) {
      read(row.data(), own->row(i), row.size());
      const std::vector<double> numbers = decode_elements(row, own->tensor.dtype);
      out.insert(out.end(), numbers.begin(), numbers.end());
    }
  }
  return out;
}

void* WideTensors::workspace(uint64_t bytes) {
  // Behind the last rows of the widest format there is nothing; between rows 0 and 1 there is room.
  std::byte* at = origin_ + slots * slot_bytes;
  at += (256 - reinterpret_cast<uintptr_t>(at) % 256) % 256;
  require<LogicError>(bytes < static_cast<uint64_t>(row_stride), "a workspace of ", bytes,
                      " bytes for three rows");
  return at;
}

}  // namespace bdlm
