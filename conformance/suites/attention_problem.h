#pragma once
// One attention layer over both streams, computed by the rank programs of a scheme.

#include <vector>

#include "conformance/judge/attention_arrays.h"
#include "reference/base/philox.h"
#include "reference/parallel/cpu_engine.h"
#include "reference/parallel/thread_communicator.h"
#include "reference/schedule/interpreter.h"

namespace bdlm {

/// What one rank computed for the rows that it holds.
template <class T>
struct RankOutput {
  RowSet rows;
  std::vector<T> o, lse;  // (R, Hq, D), (R, Hq)
};

template <class T>
struct AttentionOutcome {
  std::vector<RankOutput<T>> ranks;
  /// Sums over ranks, by position.
  ByStream<T> dq, dk, dv;
  std::vector<std::vector<LogEntry>> logs;
};

/// Elements of the rows `rows` of `by_stream`, `width` a row, in storage order.
template <class T>
std::vector<T> take_rows(const ByStream<T>& by_stream, const RowSet& rows, int64_t width) {
  std::vector<T> out;
  for (const Segment& segment : rows.segments()) {
    const std::vector<T>& from = by_stream[static_cast<int>(segment.stream)];
    out.insert(out.end(), from.begin() + segment.rows.begin * width,
               from.begin() + segment.rows.end * width);
  }
  return out;
}

template <class T>
void add_to(ByStream<T>& by_stream, const RowSet& rows, int64_t width, const std::vector<T>& what) {
  auto it = what.begin();
  for (const Segment& segment : rows.segments()) {
    std::vector<T>& to = by_stream[static_cast<int>(segment.stream)];
    for (int64_t i = segment.rows.begin * width; i < segment.rows.end * width; ++i) {
      to[i] += *it++;
    }
  }
}

/// Whether `rank` is the first that holds a row. Under BP a row may have several copies; its
/// cotangent is given to the first one alone, so that gradients add up to those of one copy.
inline bool is_first_holder(const std::vector<RankPlan>& plans, int rank, Stream stream,
                            int64_t row) {
  for (int r = 0; r < rank; ++r) {
    if (plans[r].rows.find(stream, row) >= 0) {
      return false;
    }
  }
  return true;
}

/// Sets the cotangents of rows that no rank holds (clean rows at the end, under BP) to zero.
template <class T>
void drop_unheld_cotangents(AttentionProblem<T>& problem, const std::vector<RankPlan>& plans) {
  const int64_t width = problem.shape.q_heads * problem.shape.head_dim;
  for (const Stream stream : {Stream::clean, Stream::corrupted}) {
    for (int64_t row = 0; row < problem.length; ++row) {
      const bool held = std::any_of(plans.begin(), plans.end(), [&](const RankPlan& plan) {
        return plan.rows.find(stream, row) >= 0;
      });
      if (!held) {
        auto at = problem.d_o[static_cast<int>(stream)].begin() + row * width;
        std::fill(at, at + width, T(0));
      }
    }
  }
}

/// Runs forward and backward of one rank's plan; adds its gradients to `outcome`.
template <class T>
void run_rank(const std::vector<RankPlan>& plans, const AttentionProblem<T>& problem,
              Communicator& communicator, const AttentionOptions& options,
              const EngineFactory<T>& factory, RankOutput<T>& output, ByStream<T>& dq,
              ByStream<T>& dk, ByStream<T>& dv) {
  const RankPlan& plan = plans[communicator.rank()];
  const int64_t q_width = problem.shape.q_heads * problem.shape.head_dim;
  const int64_t kv_width = problem.shape.kv_heads * problem.shape.head_dim;
  const std::unique_ptr<CpuEngine<T>> made =
      make_engine<T>(factory, plan, problem.shape, problem.scale, options);
  CpuEngine<T>& engine = *made;
  const std::vector<T> q = take_rows(problem.q, plan.rows, q_width);
  const std::vector<T> k = take_rows(problem.k, plan.rows, kv_width);
  const std::vector<T> v = take_rows(problem.v, plan.rows, kv_width);
  std::vector<T> d_o = take_rows(problem.d_o, plan.rows, q_width);
  for (size_t s = 0; s < plan.rows.segments().size(); ++s) {
    const Segment& segment = plan.rows.segments()[s];
    for (int64_t row = segment.rows.begin; row < segment.rows.end; ++row) {
      if (!is_first_holder(plans, plan.rank, segment.stream, row)) {
        const auto at = d_o.begin() + (plan.rows.offset(s) + row - segment.rows.begin) * q_width;
        std::fill(at, at + q_width, T(0));
      }
    }
  }
  engine.load(q.data(), k.data(), v.data());
  run(plan.forward, engine, communicator);
  output = {plan.rows, engine.output(), engine.lse()};
  engine.load_gradient(d_o.data());
  run(plan.backward, engine, communicator);
  add_to(dq, plan.rows, q_width, engine.dq());
  add_to(dk, plan.rows, kv_width, engine.dk());
  add_to(dv, plan.rows, kv_width, engine.dv());
}

/// Runs all ranks as threads, each with an engine of `factory`.
template <class T>
AttentionOutcome<T> run_attention(const std::vector<RankPlan>& plans,
                                  const AttentionProblem<T>& problem,
                                  const AttentionOptions& options = {},
                                  const EngineFactory<T>& factory = {}) {
  const size_t ranks = plans.size();
  const auto zeros = [&](const ByStream<T>& like) {
    return ByStream<T>{std::vector<T>(like[0].size(), T(0)), std::vector<T>(like[1].size(), T(0))};
  };
  struct Gradients {
    ByStream<T> dq, dk, dv;
  };
  std::vector<Gradients> gradients(ranks);
  AttentionOutcome<T> outcome;
  outcome.ranks.resize(ranks);
  outcome.logs.resize(ranks);
  run_ranks(static_cast<int>(ranks), [&](Communicator& communicator) {
    const int r = communicator.rank();
    gradients[r] = {zeros(problem.q), zeros(problem.k), zeros(problem.v)};
    run_rank(plans, problem, communicator, options, factory, outcome.ranks[r], gradients[r].dq,
             gradients[r].dk, gradients[r].dv);
    outcome.logs[r] = communicator.log();
  });
  outcome.dq = zeros(problem.q);
  outcome.dk = zeros(problem.k);
  outcome.dv = zeros(problem.v);
  for (const Gradients& g : gradients) {
    for (int s = 0; s < 2; ++s) {
      for (size_t i = 0; i < g.dq[s].size(); ++i) {
        outcome.dq[s][i] += g.dq[s][i];
      }
      for (size_t i = 0; i < g.dk[s].size(); ++i) {
        outcome.dk[s][i] += g.dk[s][i];
        outcome.dv[s][i] += g.dv[s][i];
      }
    }
  }
  return outcome;
}

}  // namespace bdlm
