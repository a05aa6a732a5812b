#pragma once
// Tensors whose rows lie 2^30 elements apart, over memory that is mapped where it is touched.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "conformance/judge/rounding.h"
#include "conformance/plugin/bdlm_plugin.h"

namespace bdlm {

/// Three rows at offsets 0, 2^30 and 2^31: the last one is beyond a 32-bit index, which comes out
/// as -2^31. That place is mapped, too, and holds zeros, so that a wrapped index reads and writes
/// wrong values instead of ending the process. Host memory.
class WideTensors {
 public:
  static constexpr int64_t row_stride = int64_t{1} << 30;
  static constexpr int64_t rows = 3;

  WideTensors();
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

 private:
  struct Mapped;
  std::vector<std::unique_ptr<Mapped>> tensors_;
  std::string unavailable_;
};

}  // namespace bdlm
