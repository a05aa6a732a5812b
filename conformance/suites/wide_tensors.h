#pragma once
// Tensors whose rows lie 2^30 elements apart.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "conformance/judge/rounding.h"
#include "conformance/plugin/backend.h"

namespace bdlm {

/// Three rows at offsets 0, 2^30 and 2^31: the last one is beyond a 32-bit index, which comes out
/// as -2^31. That place is there, too, and holds zeros, so that a wrapped index reads and writes
/// wrong values instead of ending the process.
///
/// All tensors lie in one piece of memory of 2^32 elements, a little apart. On the host it is
/// mapped where it is touched; a backend's device allocates it: 8 GiB for bf16, 16 for fp32.
class WideTensors {
 public:
  static constexpr int64_t row_stride = int64_t{1} << 30;
  static constexpr int64_t rows = 3;

  /// For tensors of at most `largest` bytes an element. Keeps a reference.
  WideTensors(const Backend& backend, int64_t largest);
  ~WideTensors();
  WideTensors(const WideTensors&) = delete;
  WideTensors& operator=(const WideTensors&) = delete;

  /// Why there are none; empty where there are.
  const std::string& unavailable() const { return unavailable_; }

  /// (3, rest...), with values in rows one after another.
  bdlm_tensor* input(const std::vector<double>& values, Dtype dtype, std::vector<int64_t> rest);
  /// Filled with NaN.
  bdlm_tensor* output(Dtype dtype, std::vector<int64_t> rest);
  std::vector<double> read(const bdlm_tensor* tensor) const;

  /// `bytes` of the same memory for a workspace, aligned to 256. Throws LogicError where it is too
  /// small for that.
  void* workspace(uint64_t bytes);

 private:
  struct Tensor;
  void write(void* to, const void* from, size_t bytes) const;
  void read(void* to, const void* from, size_t bytes) const;

  const Backend& backend_;
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
  std::byte* origin_ = nullptr;  // where row 0 of the first tensor lies
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::string unavailable_;
};

}  // namespace bdlm
