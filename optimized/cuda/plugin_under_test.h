#pragma once
// A plug-in from outside: loaded from a file, called through its struct alone.

#include <dlfcn.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "conformance/judge/rounding.h"
#include "conformance/plugin/bdlm_plugin.h"
#include "reference/base/error.h"
#include "reference/base/small_float.h"

namespace bdlm {

class Plugin {
 public:
  explicit Plugin(const std::string& path) {
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    require<FileError>(library_ != nullptr, path, ": ", library_ == nullptr ? dlerror() : "");
    const auto entry = reinterpret_cast<const bdlm_backend* (*)()>(dlsym(library_, "bdlm_plugin"));
    require<FileError>(entry != nullptr, path, " exports no bdlm_plugin");
    backend_ = entry();
    require<FileError>(backend_ != nullptr && backend_->version == BDLM_PLUGIN_VERSION, path,
                       " has another version of the interface");
  }
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;
  ~Plugin() {
    if (context_ != nullptr) {
      backend_->destroy(context_);
    }
    // The library stays loaded: the CUDA runtime in it has threads of its own.
  }

  /// False where there is no device.
  bool start() { return backend_->create(&context_) == BDLM_OK; }

  /// Another function of the library; null where it has none of this name.
  template <class Function>
  Function* symbol(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }

  const bdlm_backend& operator*() const { return *backend_; }
  const bdlm_backend* operator->() const { return backend_; }
  void* context() const { return context_; }

  /// Throws LogicError with the backend's own words unless `status` is BDLM_OK.
  void check(bdlm_status status) const {
    require<LogicError>(status == BDLM_OK, backend_->name, ": status ", static_cast<int>(status),
                        ": ", backend_->last_error(context_));
  }

 private:
  void* library_ = nullptr;
  const bdlm_backend* backend_ = nullptr;
  void* context_ = nullptr;
};

/// Device memory, filled with a pattern that is NaN in every format.
class DeviceMemory {
 public:
  static constexpr unsigned char pattern = 0xff;

  DeviceMemory(const Plugin& plugin, uint64_t bytes, bool filled = true) : plugin_(plugin) {
    plugin.check(plugin->allocate(plugin.context(), bytes, &memory_));
    if (filled) {
      const std::vector<unsigned char> nan(bytes, pattern);
      plugin.check(plugin->copy_in(plugin.context(), memory_, nan.data(), bytes));
    }
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { plugin_->release(plugin_.context(), memory_); }
  void* get() const { return memory_; }

 private:
  const Plugin& plugin_;
  void* memory_ = nullptr;
};

enum class Placement : uint8_t {
  contiguous,
  padded,      ///< rows 16 bytes apart
  odd,         ///< rows apart by an odd number of elements, and so not aligned
  head_major,  ///< heads outermost
};

inline bdlm_dtype dlpack_dtype(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return {4, 16, 1};
    case Dtype::fp16:
      return {2, 16, 1};
    case Dtype::fp32:
      return {2, 32, 1};
    case Dtype::f64:
      break;
  }
  return {2, 64, 1};
}

/// A tensor (rows, heads, channels), or (rows, heads) where channels is 0, on the device. All bytes
/// that are not its elements are guards.
class DeviceTensor {
 public:
  DeviceTensor(const Plugin& plugin, Dtype dtype, int64_t rows, int64_t heads, int64_t channels,
               Placement placement = Placement::contiguous)
      : plugin_(plugin),
        dtype_(dtype),
        shape_{rows, heads, channels},
        elements_(rows * heads * std::max<int64_t>(channels, 1)) {
    const bool flat = channels == 0;
    const int64_t width = flat ? 1 : channels;
    const int64_t pad = placement == Placement::padded ? 8 : placement == Placement::odd ? 3 : 0;
    strides_ = {heads * width + pad, width, 1};
    int64_t span = rows * strides_[0];
    if (placement == Placement::head_major && !flat) {
      const int64_t aligned = (width + 7) / 8 * 8;
      strides_ = {aligned, rows * aligned, 1};
      span = heads * strides_[1];
    }
    if (flat) {
      strides_ = {heads + pad, 1, 0};
      span = rows * strides_[0];
    }
    bytes_ = static_cast<uint64_t>(guard + span) * size_of(dtype) + 2 * guard;
    memory_ = std::make_unique<DeviceMemory>(plugin, bytes_);
    view_ = {memory_->get(), {2, 0},          flat ? 2 : 3, dlpack_dtype(dtype),
             shape_.data(),  strides_.data(), guard};
  }
  DeviceTensor(const DeviceTensor&) = delete;
  DeviceTensor& operator=(const DeviceTensor&) = delete;

  bdlm_tensor* view() { return &view_; }
  int64_t elements() const { return elements_; }

  /// Contiguous values, rounded to the format.
  void write(const std::vector<double>& values) {
    require<LogicError>(static_cast<int64_t>(values.size()) == elements_, "values do not fit");
    std::vector<unsigned char> bytes(bytes_, DeviceMemory::pattern);
    for_elements([&](int64_t i, uint64_t at) { put(&bytes[at], values[i]); });
    plugin_.check(plugin_->copy_in(plugin_.context(), memory_->get(), bytes.data(), bytes_));
  }
  void poison() {
    const std::vector<unsigned char> bytes(bytes_, DeviceMemory::pattern);
    plugin_.check(plugin_->copy_in(plugin_.context(), memory_->get(), bytes.data(), bytes_));
  }
  /// All bytes, guards included.
  std::vector<unsigned char> bytes() const {
    std::vector<unsigned char> bytes(bytes_);
    plugin_.check(plugin_->copy_out(plugin_.context(), bytes.data(), memory_->get(), bytes_));
    return bytes;
  }
  /// Contiguous values. Throws LogicError where a guard has changed.
  std::vector<double> read() const {
    std::vector<unsigned char> all = bytes();
    std::vector<double> values(elements_);
    for_elements([&](int64_t i, uint64_t at) {
      values[i] = take(&all[at]);
      std::memset(&all[at], DeviceMemory::pattern, size_of(dtype_));
    });
    for (const unsigned char byte : all) {
      require<LogicError>(byte == DeviceMemory::pattern, "a byte outside the tensor was written");
    }
    return values;
  }

 private:
  static constexpr uint64_t guard = 256;

  static int64_t size_of(Dtype dtype) {
    return dtype == Dtype::bf16 || dtype == Dtype::fp16 ? 2 : dtype == Dtype::fp32 ? 4 : 8;
  }
  template <class Work>
  void for_elements(const Work& work) const {
    const int64_t channels = std::max<int64_t>(shape_[2], 1);
    int64_t i = 0;
    for (int64_t row = 0; row < shape_[0]; ++row) {
      for (int64_t head = 0; head < shape_[1]; ++head) {
        for (int64_t c = 0; c < channels; ++c, ++i) {
          const int64_t at = row * strides_[0] + head * strides_[1] + c;
          work(i, guard + static_cast<uint64_t>(at * size_of(dtype_)));
        }
      }
    }
  }
  void put(unsigned char* to, double x) const {
    if (dtype_ == Dtype::bf16) {
      const float rounded =
          std::isnan(x) ? static_cast<float>(x) : static_cast<float>(round_to(x, Dtype::bf16));
      uint32_t bits = 0;
      std::memcpy(&bits, &rounded, 4);
      const auto high = static_cast<uint16_t>(bits >> 16);
      std::memcpy(to, &high, 2);
    } else if (dtype_ == Dtype::fp32) {
      const auto rounded = static_cast<float>(x);
      std::memcpy(to, &rounded, 4);
    } else {
      std::memcpy(to, &x, 8);
    }
  }
  double take(const unsigned char* from) const {
    if (dtype_ == Dtype::bf16) {
      uint16_t high = 0;
      std::memcpy(&high, from, 2);
      const uint32_t bits = uint32_t{high} << 16;
      float x = 0;
      std::memcpy(&x, &bits, 4);
      return x;
    }
    if (dtype_ == Dtype::fp32) {
      float x = 0;
      std::memcpy(&x, from, 4);
      return x;
    }
    double x = 0;
    std::memcpy(&x, from, 8);
    return x;
  }

  const Plugin& plugin_;
  Dtype dtype_;
  std::array<int64_t, 3> shape_;
  std::array<int64_t, 3> strides_{};
  int64_t elements_;
  uint64_t bytes_ = 0;
  std::unique_ptr<DeviceMemory> memory_;
  bdlm_tensor view_{};
};

}  // namespace bdlm
