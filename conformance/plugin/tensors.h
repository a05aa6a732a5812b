#pragma once
// Tensors for a backend: filled, poisoned, guarded, and checked after the call.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "conformance/judge/rounding.h"
#include "conformance/plugin/backend.h"

namespace bdlm {

/// How tensors are laid out, and what surrounds them.
struct TensorLayout {
  /// Elements between two rows of the first axis beyond a contiguous tensor's.
  int64_t row_padding = 0;
  /// Bytes from a 256-byte boundary to the first element; a multiple of the element's size.
  int64_t misalignment = 0;
  /// Chooses the bits with which outputs, padding and guards are filled: different ones for
  /// different values.
  uint64_t poison = 1;
};

/// The tensors of one call. Memory of the backend's device is taken at construction of each tensor
/// and given back at the end. On the host every tensor lies against an inaccessible page, and
/// inputs are read-only while a call runs, so that a stray access stops the worker at once, and the
/// signal's handler can say in which tensor; elsewhere guards of 4 KiB on both sides are compared.
class CallTensors {
 public:
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

  /// Makes inputs read-only, from here to `check`.
  void protect();
  /// After the call and its synchronization. What the backend did that it may not: the first of
  /// "input q was written", "output o: 3 of 4096 elements were left unwritten, first at ...",
  /// "bytes before/behind output o were written". Empty where there is nothing to say.
  std::string check();
  /// The values of an output, contiguous.
  std::vector<double> read(const bdlm_tensor* tensor) const;
  /// Its bytes, contiguous, for comparisons of bits.
  std::vector<std::byte> bytes(const bdlm_tensor* tensor) const;

  /// Which of the tensors that exist in this process an address lies in or beside, for the message
  /// of a signal handler; writes at most `size` characters and a 0. Async-signal-safe.
  static void describe_address(const void* address, char* text, size_t size);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

bdlm_dtype plugin_dtype(Dtype dtype);

}  // namespace bdlm
