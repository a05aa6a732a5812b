#pragma once
// Attention in double that rounds where a contract says, as the engine of a training step: how far
// a whole step may be off under that contract.

#include "conformance/judge/contract.h"
#include "reference/parallel/cpu_engine.h"

namespace bdlm {

/// Rounds Q, K, V and dO to `input`, P to `p`, dS to `ds`, O to `o`, gradients to `gradient`. Plain
/// loops.
class RoundingEngine : public CpuEngine<double> {
 public:
  RoundingEngine(const Contract& contract, const RankPlan& plan, const AttentionShape& shape,
                 double scale)
      : CpuEngine<double>(plan, shape, scale), contract_(contract) {}

  void load(const double* q, const double* k, const double* v) override;
  void load_gradient(const double* d_o) override;
  const std::vector<double>& dq() const override { return rounded(dq_, dq_out_); }
  const std::vector<double>& dk() const override { return rounded(d_keys_[0], dk_out_); }
  const std::vector<double>& dv() const override { return rounded(d_values_[0], dv_out_); }

 protected:
  void attend_pass(const KeyPass& pass, int buffer, int state) override;
  void attend_pass_backward(const KeyPass& pass, int buffer) override;

 private:
  std::vector<double> rounded(const double* values, int64_t count) const;
  const std::vector<double>& rounded(const std::vector<double>& values,
                                     std::vector<double>& out) const;
  double score(int64_t row, int64_t head, int64_t key, int buffer) const;

  const Contract& contract_;
  mutable std::vector<double> dq_out_, dk_out_, dv_out_;
};

}  // namespace bdlm
