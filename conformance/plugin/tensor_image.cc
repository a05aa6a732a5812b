#include "conformance/plugin/tensor_image.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "conformance/plugin/poison.h"
#include "reference/base/error.h"
#include "reference/base/small_float.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

constexpr int64_t device_guard = 4096;

const char* role_name(TensorRole role) {
  switch (role) {
    case TensorRole::input:
      return "input";
    case TensorRole::output:
      return "output";
    case TensorRole::state:
      return "state";
    case TensorRole::workspace:
      return "workspace";
    case TensorRole::array:
      return "array";
  }
  throw LogicError("a tensor's role does not exist");
}

uint64_t encode(double value, bdlm_dtype dtype) {
  switch (dtype.bits) {
    case 16:
      return dtype.code == 4 ? round_to_bf16(value) : round_to_f16(value);
    case 32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    default:
      return std::bit_cast<uint64_t>(value);
  }
}

double decode(uint64_t bits, bdlm_dtype dtype) {
  switch (dtype.bits) {
    case 16:
      return dtype.code == 4 ? bf16_value(static_cast<uint16_t>(bits))
                             : f16_value(static_cast<uint16_t>(bits));
    case 32:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
    default:
      return std::bit_cast<double>(bits);
  }
}

// x86-64 stores the low bytes first, so an element of 2, 4 or 8 bytes is the start of its bits.
void store(uint64_t bits, int64_t bytes, std::byte* to) {
  std::memcpy(to, &bits, bytes);
}
uint64_t load(const std::byte* from, int64_t bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, bytes);
  return bits;
}

}  // namespace

TensorImage::TensorImage(const Backend& backend, const TensorLayout& layout, uint64_t number,
                         std::string name, TensorRole role, bdlm_dtype dtype,
                         std::vector<int64_t> shape)
    : backend_(backend),
      name_(std::move(name)),
      role_(role),
      dtype_(dtype),
      shape_(std::move(shape)) {
  lay_out(layout);
  take_memory(plain() ? 0 : layout.misalignment / element_bytes() * element_bytes());

  const int64_t byte_offset = plain() ? 0 : layout.byte_offset;
  view_.data = memory_ + offset_ - byte_offset;
  view_.byte_offset = static_cast<uint64_t>(byte_offset);
  view_.device = guarded_ != nullptr ? bdlm_device{1, 0} : backend.entries().device;
  view_.ndim = static_cast<int32_t>(shape_.size());
  view_.dtype = dtype;
  view_.shape = shape_.data();
  const bool contiguous = plain() || layout.row_padding == 0 || shape_.size() == 1;
  view_.strides = contiguous && !layout.explicit_strides ? nullptr : strides_.data();

  // Workspace is bytes to its owner; as floats it is NaN.
  const bdlm_dtype poisoned = plain() ? plugin_dtype(Dtype::fp32) : dtype_;
  const int64_t bytes = poisoned.bits / 8;
  const uint64_t seed = mix_bits(layout.poison) + number;
  for (int64_t i = 0; i < static_cast<int64_t>(before_.size()) / bytes; ++i) {
    store(poison_bits(poisoned, seed, i), bytes, before_.data() + i * bytes);
  }
}

TensorImage::~TensorImage() {
  if (allocated_ != nullptr) {
    backend_.entries().release(backend_.context(), allocated_);
  }
}

void TensorImage::lay_out(const TensorLayout& layout) {
  require<LogicError>(!shape_.empty() && std::all_of(shape_.begin(), shape_.end(),
                                                     [](int64_t n) { return n >= 0; }),
                      title(), " has no axes, or one of negative length");
  const bool one_row = shape_.size() == 1;
  int64_t row = one_row ? shape_[0] : 1;
  strides_.assign(shape_.size(), 1);
  for (size_t axis = shape_.size() - 1; axis > 0; --axis) {
    strides_[axis] = row;
    row *= shape_[axis];
  }
  if (!one_row) {
    strides_[0] = row + (plain() ? 0 : layout.row_padding);
  }
  rows_ = one_row ? 1 : shape_[0];
  row_bytes_ = row * element_bytes();
  stride_bytes_ = one_row ? row_bytes_ : strides_[0] * element_bytes();
  rows_ = row == 0 ? 0 : rows_;
  extent_ = rows_ == 0 ? 0 : (rows_ - 1) * stride_bytes_ + row_bytes_;
}

void TensorImage::take_memory(int64_t misalignment) {
  if (backend_.on_host() || role_ == TensorRole::array) {
    guarded_ = std::make_unique<GuardedMemory>(title(), extent_, misalignment);
    memory_ = guarded_->memory();
    offset_ = guarded_->offset();
    before_.resize(guarded_->size());
    return;
  }
  offset_ = device_guard + misalignment;
  const int64_t image = offset_ + extent_ + device_guard;
  before_.resize((image + tensor_alignment - 1) / tensor_alignment * tensor_alignment);
  backend_.check("allocate",
                 backend_.entries().allocate(backend_.context(), before_.size() + tensor_alignment,
                                             &allocated_));
  const auto address = reinterpret_cast<uintptr_t>(allocated_);
  memory_ = static_cast<std::byte*>(allocated_) +
            (tensor_alignment - address % tensor_alignment) % tensor_alignment;
}

std::string TensorImage::title() const {
  return join(role_name(role_), ' ', name_);
}

void TensorImage::fill(std::span<const double> values) {
  require<LogicError>(static_cast<int64_t>(values.size()) == elements(), title(), " gets ",
                      values.size(), " values; it has ", elements());
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = encode(values[i], dtype_);
    const double back = decode(bits, dtype_);
    // The message is made only where it is needed: this is run for every element.
    if (back != values[i] && (back == back || values[i] == values[i])) {
      throw InputError(join(title(), ": value ", i, " is ", values[i],
                            ", which is no number of its format of ", int{dtype_.bits}, " bits"));
    }
    store(bits, element_bytes(), before_.data() + at(static_cast<int64_t>(i)));
  }
}

void TensorImage::fill_bytes(std::span<const std::byte> values) {
  require<LogicError>(static_cast<int64_t>(values.size()) == rows_ * row_bytes_, title(), " gets ",
                      values.size(), " bytes; it has ", rows_ * row_bytes_);
  for (int64_t row = 0; row < rows_; ++row) {
    std::copy_n(values.data() + row * row_bytes_, row_bytes_,
                before_.data() + offset_ + row * stride_bytes_);
  }
}

void TensorImage::upload() {
  if (guarded_ != nullptr) {
    std::copy(before_.begin(), before_.end(), memory_);
  } else {
    backend_.check("copy_in", backend_.entries().copy_in(backend_.context(), memory_,
                                                         before_.data(), before_.size()));
  }
}

std::vector<std::byte> TensorImage::download() const {
  if (guarded_ != nullptr) {
    return {memory_, memory_ + before_.size()};
  }
  std::vector<std::byte> out(before_.size());
  backend_.check("copy_out",
                 backend_.entries().copy_out(backend_.context(), out.data(), memory_, out.size()));
  return out;
}

std::vector<std::byte> TensorImage::elements_of(const std::vector<std::byte>& image) const {
  std::vector<std::byte> out;
  out.reserve(rows_ * row_bytes_);
  for (int64_t row = 0; row < rows_; ++row) {
    const auto begin = image.begin() + offset_ + row * stride_bytes_;
    out.insert(out.end(), begin, begin + row_bytes_);
  }
  return out;
}

void TensorImage::protect(GuardedMemory::Protection protection) {
  if (guarded_ != nullptr) {
    guarded_->protect(protection);
  }
}

std::string TensorImage::changed_inside(const std::vector<std::byte>& after) const {
  for (int64_t row = 0; row < rows_; ++row) {
    const int64_t from = offset_ + row * stride_bytes_;
    const auto begin = after.begin() + from;
    const auto different = std::mismatch(begin, begin + row_bytes_, before_.begin() + from).first;
    if (different != begin + row_bytes_) {
      return join(title(), " was written, first at byte ", different - after.begin() - offset_,
                  " of ", extent_);
    }
  }
  return "";
}

std::string TensorImage::changed_outside(const std::vector<std::byte>& after) const {
  const auto look = [&](const char* what, int64_t begin, int64_t end) {
    const auto different =
        std::mismatch(after.begin() + begin, after.begin() + end, before_.begin() + begin).first;
    return different == after.begin() + end
               ? std::string()
               : join(what, title(), " were written, first at byte ",
                      different - after.begin() - offset_, " of ", extent_);
  };
  std::string found = look("bytes before ", 0, offset_);
  if (found.empty()) {
    found = look("bytes behind ", offset_ + extent_, static_cast<int64_t>(after.size()));
  }
  for (int64_t row = 0; row + 1 < rows_ && found.empty(); ++row) {
    const int64_t begin = offset_ + row * stride_bytes_;
    found = look("padding between rows of ", begin + row_bytes_, begin + stride_bytes_);
  }
  return found;
}

std::string TensorImage::left_unwritten(const std::vector<std::byte>& after) const {
  const int64_t bytes = element_bytes();
  int64_t count = 0, first = -1;
  for (int64_t i = 0; i < elements(); ++i) {
    if (load(after.data() + at(i), bytes) == load(before_.data() + at(i), bytes)) {
      first = count++ == 0 ? i : first;
    }
  }
  if (count == 0) {
    return "";
  }
  return join(title(), ": ", count, " of ", elements(), " elements were left unwritten, first at (",
              index_text(first, shape_), ")");
}

std::vector<std::byte> encode_elements(std::span<const double> values, bdlm_dtype dtype) {
  const int64_t bytes = dtype.bits / 8;
  std::vector<std::byte> out(values.size() * bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    store(encode(values[i], dtype), bytes, out.data() + i * bytes);
  }
  return out;
}

std::vector<double> decode_elements(std::span<const std::byte> elements, bdlm_dtype dtype) {
  const int64_t bytes = dtype.bits / 8;
  std::vector<double> out(elements.size() / bytes);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = decode(load(elements.data() + i * bytes, bytes), dtype);
  }
  return out;
}

}  // namespace bdlm
