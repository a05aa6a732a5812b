// Step vectors: the loss of a tiny model and the gradient of every parameter, under Hugging Face
// names.

#include <cmath>

#include "conformance/golden/golden_vector.h"
#include "conformance/judge/limits.h"
#include "reference/base/error.h"
#include "reference/math/quad.h"
#include "reference/objective/draws.h"
#include "reference/parallel/dense_step.h"
#include "reference/parallel/run_step.h"

namespace bdlm {
namespace {

template <class T>
std::vector<double> doubles(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

/// What the step reads beside the parameters. Terms of all views, one after another.
void add_example(const StepSettings& s, const DenseCase& dense, GoldenVector& out) {
  const int64_t length = s.sequence.length();
  const auto views = static_cast<int64_t>(dense.views.size());
  InputTensor corrupted{"corrupted_tokens", {views, length}, DType::i64, {}};
  InputTensor terms{"terms", {0, 4}, DType::i64, {}};
  InputTensor weights{"term_weights", {0}, DType::f64, {}};
  for (int64_t view = 0; view < views; ++view) {
    const View& v = dense.views[view];
    corrupted.values.insert(corrupted.values.end(), v.corrupted_tokens.begin(),
                            v.corrupted_tokens.end());
    for (const LossTerm& term : v.terms) {
      for (const int64_t x : {view, int64_t{static_cast<int>(term.stream)}, term.row, term.label}) {
        terms.values.push_back(static_cast<double>(x));
      }
      weights.values.push_back(term.weight);
      ++terms.shape[0];
      ++weights.shape[0];
    }
  }
  const bool masked = s.objective == ObjectiveKind::masked_block;
  const Draws draws = masked ? masked_block_draws(s.sequence, {.seed = s.seed})
                             : complementary_draws(s.sequence, {.seed = s.seed});
  InputTensor positions{"positions", {length}, DType::i64, {}};
  for (int64_t i = 0; i < length; ++i) {
    positions.values.push_back(static_cast<double>(s.sequence.position(i)));
  }
  out.inputs.push_back({"tokens", {length}, DType::i64, doubles(dense.example.tokens)});
  out.inputs.push_back({"supervised", {length}, DType::u8, doubles(dense.example.supervised)});
  out.inputs.push_back(std::move(positions));
  out.inputs.push_back({"draws.block", {s.sequence.blocks()}, DType::f64, draws.block});
  out.inputs.push_back({"draws.token", {length}, DType::f64, draws.token});
  out.inputs.push_back(std::move(corrupted));
  out.inputs.push_back(std::move(terms));
  out.inputs.push_back(std::move(weights));
}

/// The bound of T3, in units of the contract's accumulation instead of double's.
double bound_of(double largest, const Contract& contract) {
  return limits::step_relative * largest * (unit_roundoff(contract.accumulate) / limits::unit_f64);
}

}  // namespace

GoldenVector make_step_vector(const GoldenCase& c, Making making) {
  const auto& v = std::get<StepVector>(c.what);
  const Contract contract = builtin_contract(c.contract);
  StepSettings settings = v.settings;
  settings.seed = c.seed;
  require<LogicError>(settings.noise == 0, "a step vector's draws are those of its seed");
  StepProblem problem = make_step(settings);
  for (double& x : problem.parameters.values()) {
    x = round_to(x, contract.input);
  }
  GoldenVector out;
  const ParameterTable& table = problem.parameters.table();
  for (size_t n = 0; n < table.entries().size(); ++n) {
    const ParameterEntry& entry = table.entries()[n];
    const double* from = problem.parameters[n];
    out.inputs.push_back(
        {entry.name, entry.shape, file_dtype(contract.input), {from, from + entry.size}});
  }
  add_example(settings, problem.dense, out);
  if (making == Making::inputs) {
    return out;
  }
  const StepResult<Quad> result =
      run_step<Quad>(problem.dense, problem.parameters.cast<Quad>(),
                     divide(problem.dense.example.sequence, Scheme::monolithic, 1));
  const auto loss = static_cast<double>(result.loss);
  out.outputs.push_back({"loss", {}, {loss}, {bound_of(std::abs(loss), contract)}, {}});
  for (size_t n = 0; n < table.entries().size(); ++n) {
    const ParameterEntry& entry = table.entries()[n];
    OutputTensor t{entry.name, entry.shape, {}, {}, {}};
    double largest = 0;
    for (int64_t i = 0; i < entry.size; ++i) {
      t.value.push_back(static_cast<double>(result.gradients[n][i]));
      largest = std::max(largest, std::abs(t.value.back()));
    }
    t.bound.assign(entry.size, bound_of(largest, contract));
    out.outputs.push_back(std::move(t));
  }
  return out;
}

}  // namespace bdlm
