#pragma once
// Tensors for a backend: filled, poisoned, guarded, and checked after the call.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "conformance/judge/rounding.h"
#include "conformance/plugin/backend.h"
#include "conformance/plugin/guarded_memory.h"

namespace bdlm {

/// How tensors are laid out, and what surrounds them.
struct TensorLayout {
  /// Elements between two rows of the first axis beyond a contiguous tensor's; tensors of one axis
  /// stay contiguous, for the last stride is 1.
  int64_t row_padding = 0;
  /// Bytes from a 256-byte boundary to the first element, in [0, 256); rounded down to a multiple
  /// of the element's size.
  int64_t misalignment = 0;
  /// `data` lies so many bytes before the first element, and `byte_offset` says so.
  int64_t byte_offset = 0;
  /// Strides are given although the tensor is contiguous.
  bool explicit_strides = false;
  /// Chooses the bits with which outputs, padding and guards are filled: different ones for
  /// different values.
  uint64_t poison = 1;
};

/// The tensors of one call. Memory of the backend's device is taken at construction of each tensor
/// and given back at the end. On the host every tensor lies against an inaccessible page, and
/// inputs are read-only while a call runs, so that a stray access stops the worker at once, and the
/// signal's handler can say in which tensor; elsewhere guards of 4 KiB on both sides are compared.
/// What surrounds a tensor, and outputs before the call, are signalling NaNs (poison.h), a
/// different one for every element. Throws BackendError where the backend's memory entries fail.
class CallTensors {
 public:
  /// What a call came to, which decides what it may have written.
  enum class After : uint8_t {
    success,  ///< all outputs
    refusal,  ///< BDLM_UNSUPPORTED: nothing
    failure,  ///< another error: outputs, or parts of them
  };

  explicit CallTensors(const Backend& backend, const TensorLayout& layout = {});
  ~CallTensors();
  CallTensors(const CallTensors&) = delete;
  CallTensors& operator=(const CallTensors&) = delete;

  /// `values` in the given format; throws InputError where one of them is not such a number.
  bdlm_tensor* input(std::string name, std::span<const double> values, Dtype dtype,
                     std::vector<int64_t> shape);
  bdlm_tensor* input(std::string name, std::span<const int64_t> values, std::vector<int64_t> shape);
  /// Poisoned.
  bdlm_tensor* output(std::string name, Dtype dtype, std::vector<int64_t> shape);
  /// Filled, and written by the call: a state that is updated in place.
  bdlm_tensor* in_out(std::string name, std::span<const double> values, Dtype dtype,
                      std::vector<int64_t> shape);
  /// Bytes for the backend's own use, 256-byte aligned and poisoned. Null where 0.
  void* workspace(uint64_t bytes);
  /// A copy in guarded host memory, for arrays that are not tensors. It is an input, and
  /// `end_host_arrays` ends its life.
  template <class T>
  const T* host_array(const std::string& name, const std::vector<T>& values) {
    return static_cast<const T*>(host_bytes(name, std::as_bytes(std::span<const T>(values))));
  }

  /// Makes inputs read-only, from here to `check`.
  void protect();
  /// After the entry has returned: host arrays become inaccessible until `check`.
  void end_host_arrays();
  /// After the call and its synchronization. What the backend did that it may not: the first of
  /// "input q was written, first at byte 40 of 4096", "bytes before output o were written, ...",
  /// "bytes behind output o ...", "padding between rows of output o ...", "output o was written,
  /// ..., although the entry returned BDLM_UNSUPPORTED", "output o: 3 of 4096 elements were left
  /// unwritten, first at (1, 0, 5)". Empty where there is nothing to say.
  std::string check(After after = After::success);
  /// The values of an output, contiguous.
  std::vector<double> read(const bdlm_tensor* tensor) const;
  /// Its bytes, contiguous, for comparisons of bits.
  std::vector<std::byte> bytes(const bdlm_tensor* tensor) const;

  /// Which of the tensors that exist in this process an address lies in or beside, for the message
  /// of a signal handler: see describe_guarded. Async-signal-safe.
  static void describe_address(const void* address, Access access, char* text, size_t size) {
    describe_guarded(address, access, text, size);
  }

 private:
  const void* host_bytes(std::string name, std::span<const std::byte> values);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

bdlm_dtype plugin_dtype(Dtype dtype);

}  // namespace bdlm
