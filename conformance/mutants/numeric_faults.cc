#include "conformance/mutants/numeric_faults.h"

#include <algorithm>
#include <cmath>

#include "conformance/judge/emulated.h"

namespace bdlm {
namespace {

NumericFault of_pipeline(std::string what, std::string contract, std::string tensor,
                         std::vector<Reason> reasons, const EmulatedFaults& faults) {
  return {std::move(what), std::move(contract), std::move(tensor), std::move(reasons),
          [faults](const auto& p, const auto& d, const Contract& c) {
            return emulate(p, d, c, faults);
          }};
}

/// A format below the one that is declared.
NumericFault of_format(std::string what, std::string contract, std::string tensor,
                       std::vector<Reason> reasons, Dtype Contract::*site) {
  return {std::move(what), std::move(contract), std::move(tensor), std::move(reasons),
          [site](const auto& p, const auto& d, Contract c) {
            c.*site = Dtype::bf16;
            c.reduce_order = ReduceOrder::ring;
            return emulate(p, d, c);
          }};
}

/// Probability of a key in a row, in the head where it is largest.
double largest_probability(const AttentionProblem<double>& p, const AttentionOutputs& right,
                           int64_t row, Stream key_stream, int64_t key) {
  const AttentionShape& shape = p.shape;
  double largest = 0;
  for (int64_t head = 0; head < shape.q_heads; ++head) {
    const int64_t at = row * shape.q_heads + head;
    const int64_t kv = key * shape.kv_heads + head / shape.group();
    double score = 0;
    for (int64_t c = 0; c < shape.head_dim; ++c) {
      score += p.scale * p.q[1][at * shape.head_dim + c] *
               p.k[static_cast<int>(key_stream)][kv * shape.head_dim + c];
    }
    largest = std::max(largest, std::exp(score - right.lse[1][at]));
  }
  return largest;
}

/// A row misses a key of ordinary weight: the median of what its keys weigh at most in a head.
AttentionOutputs without_a_key(const AttentionProblem<double>& p, const Decomposition& d,
                               const Contract& c) {
  const AttentionOutputs right = emulate(p, d, c);
  const int64_t row = p.length * 3 / 4;
  std::vector<std::pair<double, MissingKey>> keys;
  for (const KeyPart& part : d.parts_of(Stream::corrupted, row)) {
    for (int64_t key = part.keys.begin; key < part.keys.end; ++key) {
      keys.push_back({largest_probability(p, right, row, part.stream, key),
                      {Stream::corrupted, row, part.stream, key}});
    }
  }
  std::sort(keys.begin(), keys.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  EmulatedFaults faults;
  faults.missing_key = keys[keys.size() / 2].second;
  return emulate(p, d, c, faults);
}

/// An element of dV of typical size, times 1.05.
AttentionOutputs one_element_off(const AttentionProblem<double>& p, const Decomposition& d,
                                 const Contract& c) {
  AttentionOutputs out = emulate(p, d, c);
  std::vector<double>& dv = out.dv[0];
  double squares = 0;
  for (const double x : dv) {
    squares += x * x;
  }
  const double size = std::sqrt(squares / static_cast<double>(dv.size()));
  size_t i = dv.size() / 3;
  while (std::abs(dv[i]) < size) {
    ++i;
  }
  dv[i] = round_to(1.05 * dv[i], c.gradient);
  return out;
}

}  // namespace

NumericFault no_fault(const std::string& contract) {
  return of_pipeline("none", contract, "O", {Reason::none}, {});
}

std::vector<NumericFault> numeric_faults() {
  const auto with = [](auto member, auto value) {
    EmulatedFaults faults;
    faults.*member = value;
    return faults;
  };
  const std::string bf16 = "bf16-fp32-reduce";
  const std::vector<Reason> scale{Reason::scale};
  const std::vector<Reason> element{Reason::bound, Reason::outlier};
  return {
      of_pipeline("truncation for rounding", bf16, "dK", scale,
                  with(&EmulatedFaults::rounding, Rounding::truncate)),
      of_pipeline("dK x 1.01", bf16, "dK", scale, with(&EmulatedFaults::dk_gain, 1.01)),
      of_pipeline("dQ x 0.99", bf16, "dQ", scale, with(&EmulatedFaults::dq_gain, 0.99)),
      of_pipeline("dV x 1.003", bf16, "dV", scale, with(&EmulatedFaults::dv_gain, 1.003)),
      of_pipeline("O x 1.005", bf16, "O", scale, with(&EmulatedFaults::o_gain, 1.005)),
      {"one element of dV + 5 %", bf16, "dV", element, one_element_off},
      {"a row misses one key", bf16, "O", element, without_a_key},
      of_pipeline("merge by plain average", bf16, "O", {Reason::bound},
                  with(&EmulatedFaults::merge_by_average, true)),
      of_pipeline("merge weights from bf16 LSE", bf16, "O", element,
                  with(&EmulatedFaults::merge_by_rounded_lse, true)),
      of_format("partial O in bf16", "fp32", "O", {Reason::bound}, &Contract::partial_o),
      of_format("gradients reduced in bf16", "fp32", "dK", {Reason::bound}, &Contract::reduce),
      of_format("P in bf16", "fp32", "O", {Reason::bound}, &Contract::p),
      of_pipeline("dK x 1.01", "fp32", "dK", scale, with(&EmulatedFaults::dk_gain, 1.01)),
  };
}

}  // namespace bdlm
