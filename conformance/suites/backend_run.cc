#include "conformance/suites/backend_run.h"

#include <cmath>
#include <limits>

#include "conformance/suites/backend_engine.h"
#include "conformance/suites/backend_failure.h"
#include "reference/parallel/thread_communicator.h"
#include "reference/schedule/interpreter.h"
#include "reference/schedule/plan_builder.h"

namespace bdlm {
namespace {

std::vector<double> take(const ByStream<double>& from, const RowSet& rows, int64_t width) {
  std::vector<double> out;
  out.reserve(rows.size() * width);
  for (const Segment& segment : rows.segments()) {
    const auto begin = from[static_cast<int>(segment.stream)].begin();
    out.insert(out.end(), begin + segment.rows.begin * width, begin + segment.rows.end * width);
  }
  return out;
}

void put(const std::vector<double>& values, const RowSet& rows, int64_t width,
         ByStream<double>& to) {
  auto at = values.begin();
  for (const Segment& segment : rows.segments()) {
    const int64_t count = segment.rows.size() * width;
    std::copy(at, at + count,
              to[static_cast<int>(segment.stream)].begin() + segment.rows.begin * width);
    at += count;
  }
}

ByStream<double> filled(size_t size, double value) {
  return {std::vector<double>(size, value), std::vector<double>(size, value)};
}

}  // namespace

BackendOutcome run_on_backend(const Backend& backend, const Sequence& sequence,
                              const LayerRule& rule, const std::vector<RankPlan>& plans,
                              const AttentionProblem<double>& problem, const CallOptions& options) {
  const AttentionShape& shape = problem.shape;
  const size_t q_size = problem.length * shape.q_heads * shape.head_dim;
  const size_t kv_size = problem.length * shape.kv_heads * shape.head_dim;
  const bool backward = !problem.d_o[0].empty() || !problem.d_o[1].empty();
  BackendOutcome outcome;
  AttentionOutputs& out = outcome.outputs;
  out.o = filled(q_size, 0);
  out.lse = filled(q_size / shape.head_dim, -std::numeric_limits<double>::infinity());
  if (backward) {
    out.dq = filled(q_size, 0);
    out.dk = filled(kv_size, 0);
    out.dv = filled(kv_size, 0);
  }
  outcome.logs.resize(plans.size());
  BackendLayer layer{backend, sequence, rule, shape, problem.scale, options, {}};
  const int64_t q_width = shape.q_heads * shape.head_dim;
  const int64_t kv_width = shape.kv_heads * shape.head_dim;
  // Ranks compute one at a time, so each may use all threads.
  RunOptions run_options;
  run_options.openmp_threads = 0;
  run_ranks(
      static_cast<int>(plans.size()),
      [&](Communicator& communicator) {
        const RankPlan& plan = plans[communicator.rank()];
        BackendEngine engine(layer, plan);
        engine.load(take(problem.q, plan.rows, q_width), take(problem.k, plan.rows, kv_width),
                    take(problem.v, plan.rows, kv_width));
        run(plan.forward, engine, communicator);
        put(engine.output().o, plan.rows, q_width, out.o);
        put(engine.output().lse, plan.rows, shape.q_heads, out.lse);
        if (backward) {
          engine.load_gradient(take(problem.d_o, plan.rows, q_width));
          run(plan.backward, engine, communicator);
          put(engine.dq(), plan.rows, q_width, out.dq);
          put(engine.dk(), plan.rows, kv_width, out.dk);
          put(engine.dv(), plan.rows, kv_width, out.dv);
        }
        outcome.logs[communicator.rank()] = communicator.log();
      },
      run_options);
  return outcome;
}

std::vector<std::vector<RankPlan>> groups_of(const LayoutCase& layout) {
  const std::vector<RankPlan> plans =
      build_plans(layout.shape.sequence, layout.ownership(), layout.rule);
  if (layout.scheme != Scheme::bp) {
    return {plans};
  }
  std::vector<std::vector<RankPlan>> out;
  for (const RankPlan& plan : plans) {
    out.push_back({plan});
  }
  return out;
}

void round_inputs(AttentionProblem<double>& problem, Dtype dtype) {
  for (auto* tensor : {&problem.q, &problem.k, &problem.v, &problem.d_o}) {
    for (auto& stream : *tensor) {
      for (double& x : stream) {
        x = round_to(x, dtype);
      }
    }
  }
}

AttentionProblem<double> backend_data(const AttentionShape& shape, int64_t length, DataKind kind,
                                      uint64_t seed, const Contract& contract) {
  AttentionProblem<double> problem = attention_data<double>(shape, length, kind, seed);
  round_inputs(problem, contract.input);
  return problem;
}

AttentionProblem<double> zero_problem(const AttentionShape& shape, int64_t length) {
  AttentionProblem<double> problem;
  problem.shape = shape;
  problem.length = length;
  problem.scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  problem.q = problem.d_o = filled(length * shape.q_heads * shape.head_dim, 0);
  problem.k = problem.v = filled(length * shape.kv_heads * shape.head_dim, 0);
  return problem;
}

}  // namespace bdlm
