#pragma once
// One shape on a device: random inputs, outputs, and calls of a plug-in on them.

#include <memory>

#include "bench/attention_shape.h"
#include "bench/output_distance.h"
#include "optimized/cuda/bdlm_bounds.h"
#include "optimized/cuda/plugin_under_test.h"

namespace bdlm {

/// Inputs in bf16, (rows, heads, D) and contiguous, with Philox values; the key sets are the
/// streams.
class DeviceInputs {
 public:
  DeviceInputs(const Plugin& plugin, const BenchShape& shape, uint64_t seed);
  const DeviceMemory& q() const { return *q_; }
  const DeviceMemory& d_o() const { return *d_o_; }
  const DeviceMemory& k(int64_t stream) const { return *k_[stream]; }
  const DeviceMemory& v(int64_t stream) const { return *v_[stream]; }

 private:
  std::unique_ptr<DeviceMemory> q_, d_o_, k_[2], v_[2];
};

/// Outputs of all heads, or of the first KV head and its query heads, in the plug-in's formats, and
/// the calls that write them.
class DeviceCalls {
 public:
  enum class Heads { all, first_group };
  /// Keeps references. `real` is the format of the outputs, `lse` that of the log-sum-exps.
  DeviceCalls(const Plugin& plugin, const BenchShape& shape, const DeviceInputs& inputs,
              const std::vector<std::vector<int64_t>>& intervals, Heads heads, Dtype real,
              Dtype lse);
  void forward();
  void backward();
  void synchronize() { plugin_.check(plugin_->synchronize(plugin_.context(), nullptr)); }

  /// dK and dV of every stream, O, LSE, dQ.
  std::vector<NamedOutput> outputs() const;
  /// The same with bounds and deviations under a rounding model, which the plug-in has to offer.
  std::vector<NamedOutput> bounded_outputs(const bdlm_error_model& model);

 private:
  struct View;
  std::vector<double> read(const bdlm_tensor& tensor) const;
  bdlm_tensor& input(const DeviceMemory& memory, int64_t rows, int64_t heads, int64_t all_heads);
  /// Without a name it is none of outputs().
  bdlm_tensor& output(const char* name, Dtype dtype, int64_t rows, int64_t heads, bool flat);

  struct View {
    std::array<int64_t, 3> shape, strides;
    bdlm_tensor tensor;
    std::string name;
    Dtype dtype;
    std::unique_ptr<DeviceMemory> memory;
  };
  const Plugin& plugin_;
  const BenchShape& shape_;
  std::vector<std::unique_ptr<View>> views_;
  std::vector<bdlm_keys> keys_;
  bdlm_attention_args forward_{};
  bdlm_attention_backward_args backward_{};
  std::unique_ptr<DeviceMemory> workspace_;
};

}  // namespace bdlm
