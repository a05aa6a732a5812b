#pragma once
// What a golden vector holds: inputs in their own dtypes, and for every output the right values
// with their bounds.

#include <string>
#include <vector>

#include "conformance/golden/golden_case.h"
#include "conformance/judge/bounds.h"
#include "reference/base/safetensors_writer.h"

namespace bdlm {

struct InputTensor {
  std::string name;
  std::vector<int64_t> shape;
  DType dtype = DType::f64;
  /// Numbers of the dtype; integers too, which are all below 2^53.
  std::vector<double> values;
};

struct OutputTensor {
  /// What a user calls it: "o", "dq", "loss", "model.norm.weight" (a gradient).
  std::string name;
  std::vector<int64_t> shape;
  /// Evaluated in 113 bits, rounded to double once.
  std::vector<double> value;
  /// H, and sigma; sigma is empty where it is not predicted.
  std::vector<double> bound, deviation;
};

struct GoldenVector {
  std::vector<InputTensor> inputs;
  std::vector<OutputTensor> outputs;
  /// Numbers that belong to the inputs, as text: "scale", "upstream", ...
  TensorMetadata parameters;
};

/// How much of a vector to make; the outputs cost.
enum class Making : uint8_t { inputs, all };

GoldenVector make_attention(const GoldenCase& c, Making making);
GoldenVector make_merge(const GoldenCase& c, Making making);
GoldenVector make_cross_entropy(const GoldenCase& c, Making making);
GoldenVector make_step_vector(const GoldenCase& c, Making making);

/// Any of these.
GoldenVector make_vector(const GoldenCase& c, Making making = Making::all);

/// The shortest text that reads back as the same double.
std::string number_text(double value);

// The parts of the attention family that a judge needs, too.

/// The rows and calls behind H and sigma.
Decomposition decomposition_of(const AttentionVector& v);
/// Inputs as the contract reads them.
AttentionProblem<double> problem_of(const GoldenCase& c);
/// The values of O, LSE, dQ, dK and dV in 113 bits, rounded to double.
void evaluate_in_quad(const AttentionProblem<double>& problem, const Decomposition& decomposition,
                      ExpectedAttention& expected);

/// The format of a judge's dtype in files.
DType file_dtype(Dtype dtype);

}  // namespace bdlm
