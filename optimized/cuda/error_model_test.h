#pragma once
// The judge's rounding model of a contract, in the form in which the oracle takes it.

#include "conformance/judge/error_model.h"
#include "optimized/cuda/bdlm_bounds.h"

namespace bdlm {

inline bdlm_error_model error_model_of(const Contract& contract, int64_t head_dim, int64_t merges) {
  const ErrorModel model(contract, head_dim);
  bdlm_error_model m{};
  m.accumulate = model.u();
  m.p = model.site(contract.p);
  m.ds = model.site(contract.ds);
  m.o = model.site(contract.o);
  m.gradient = model.site(contract.gradient);
  m.tiny_p = ErrorModel::tiny(contract.p);
  m.tiny_ds = ErrorModel::tiny(contract.ds);
  m.tiny_o = ErrorModel::tiny(contract.o);
  m.tiny_partial_o = ErrorModel::tiny(contract.partial_o);
  m.tiny_gradient = ErrorModel::tiny(contract.gradient);
  m.rounding_variance = limits::rounding_variance;
  m.chain_deviations = limits::chain_deviations;
  m.lse_chain_deviations = limits::lse_chain_deviations;
  m.score_roundings = limits::score_roundings;
  m.exp_roundings = limits::exp_roundings;
  m.chain = contract.chain;
  m.merges = merges;
  return m;
}

}  // namespace bdlm
