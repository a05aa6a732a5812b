#include "conformance/suites/step_judge.h"

#include <cmath>

#include "conformance/judge/limits.h"
#include "conformance/suites/attention_traffic.h"
#include "conformance/suites/largest.h"
#include "reference/layout/ledger.h"
#include "reference/parallel/dense_step.h"
#include "reference/parallel/thread_communicator.h"

namespace bdlm {
namespace {

StepOutcome<double> run_alone(const StepProblem& problem, bool reverse_tiles) {
  const Ownership alone = divide(problem.dense.example.sequence, Scheme::monolithic, 1);
  StepOptions options = problem.options;
  options.reverse_tiles = reverse_tiles;
  if (reverse_tiles) {
    // Several tiles even where the sequence is short; else their order changes nothing.
    options.tile = std::clamp<int64_t>(problem.dense.example.sequence.length() / 4, 1, 64);
  }
  std::vector<StepOutcome<double>> out;
  run_ranks(1,
            [&](Communicator& communicator) {
              out.push_back(
                  dense_rank_step(problem.dense, problem.parameters, alone, communicator, options));
            },
            {.openmp_threads = 0});
  return std::move(out[0]);
}

/// The plans of every rank, one a layer.
using LayerPlans = std::vector<std::shared_ptr<const RankPlan>>;
std::vector<LayerPlans> layer_plans_of(const Subject& subject, const DenseCase& dense,
                                       const Ownership& ownership) {
  std::vector<LayerPlans> out(ownership.ranks);
  const std::vector<LayerRule>& rules = dense.config.rules;
  for (size_t layer = 0; layer < rules.size(); ++layer) {
    const size_t first = std::find(rules.begin(), rules.end(), rules[layer]) - rules.begin();
    std::vector<RankPlan> plans;
    if (first == layer) {
      plans = plans_of(subject, {dense.example.sequence, rules[layer], ownership});
    }
    for (int r = 0; r < ownership.ranks; ++r) {
      out[r].push_back(first < layer ? out[r][first]
                                     : std::make_shared<const RankPlan>(std::move(plans[r])));
    }
  }
  return out;
}

}  // namespace

StepBaseline make_baseline(const StepProblem& problem) {
  StepBaseline base{run_alone(problem, false), {}, 0};
  const StepOutcome<double> other = run_alone(problem, true);
  const auto tolerance = [](double size, double difference) {
    return std::max(limits::step_relative * size, limits::step_reordered * difference);
  };
  const ParameterTable& table = base.one.gradients.table();
  for (size_t n = 0; n < table.entries().size(); ++n) {
    const int64_t count = table.entries()[n].size;
    const double* one = base.one.gradients[n];
    base.tolerance.push_back(
        tolerance(largest(one, count), largest_difference(one, other.gradients[n], count)));
  }
  base.loss_tolerance = tolerance(std::abs(base.one.loss), std::abs(base.one.loss - other.loss));
  return base;
}

StepRun run_scheme(const StepProblem& problem, const Ownership& ownership, const Subject& subject) {
  StepRun run{{0, DenseParameters<double>(problem.dense.config)}, {}};
  run.logs.resize(ownership.ranks);
  DenseCase dense = problem.dense;
  if (subject.step_case) {
    subject.step_case(dense);
  }
  StepHooks<double> hooks = subject.step;
  hooks.engine = subject.engine_f64;
  const std::vector<LayerPlans> plans = layer_plans_of(subject, dense, ownership);
  run_ranks(ownership.ranks,
            [&](Communicator& communicator) {
              const int r = communicator.rank();
              StepOutcome<double> mine =
                  dense_rank_step(dense, problem.parameters, ownership, plans[r], communicator,
                                  problem.options, hooks);
              run.logs[r] = communicator.log();
              if (r == 0) {
                run.outcome = std::move(mine);
              }
            },
            {.time_limit = std::chrono::minutes(30)});
  return run;
}

std::vector<int64_t> step_ledger_bytes(const StepProblem& problem, const Ownership& ownership) {
  const DenseConfig& config = problem.dense.config;
  const Architecture model =
      attention_model(config.rules, {config.q_heads, config.kv_heads, config.head_dim});
  LedgerOptions options;
  options.scheme = ownership.scheme;
  options.ranks = ownership.ranks;
  options.blocks_of_rank = ownership.blocks;
  options.bytes = ElementBytes::f64();
  options.checkpointing =
      problem.options.checkpointing ? Checkpointing::full_recompute : Checkpointing::none;
  options.clean_rule = config.rules.front().clean;
  const Ledger ledger = make_ledger(model, problem.dense.example.sequence, options);
  std::vector<int64_t> out;
  for (int r = 0; r < ownership.ranks; ++r) {
    out.push_back(ledger.bytes_of_rank(r) * static_cast<int64_t>(problem.dense.views.size()));
  }
  return out;
}

StepVerdict compare(const StepProblem& problem, const Ownership& ownership,
                    const StepBaseline& baseline, const StepRun& run) {
  StepVerdict v;
  const auto add = [&](const std::string& tensor, double difference, double tolerance) {
    if (!std::isfinite(difference)) {
      v.nonfinite = true;
      v.worst_tensor = tensor;
      return;
    }
    const double ratio = difference == 0 ? 0
                         : tolerance > 0 ? difference / tolerance
                                         : std::numeric_limits<double>::infinity();
    if (!v.nonfinite && ratio >= v.worst) {
      v.worst = ratio;
      v.worst_tensor = tensor;
    }
  };
  v.loss = run.outcome.loss;
  v.loss_difference = std::abs(run.outcome.loss - baseline.one.loss);
  add("loss", v.loss_difference, baseline.loss_tolerance);
  const ParameterTable& table = baseline.one.gradients.table();
  for (size_t n = 0; n < table.entries().size(); ++n) {
    const ParameterEntry& entry = table.entries()[n];
    const double* one = baseline.one.gradients[n];
    const double difference = largest_difference(run.outcome.gradients[n], one, entry.size);
    add(entry.name, difference, baseline.tolerance[n]);
    const double size = largest(one, entry.size);
    if (size > 0) {
      v.worst_relative = std::max(v.worst_relative, difference / size);
    }
  }
  const std::vector<int64_t> ledger = step_ledger_bytes(problem, ownership);
  v.bytes_differ = compare_bytes(ledger, run.logs);
  for (const int64_t n : ledger) {
    v.bytes += n;
  }
  return v;
}

CaseResult case_result(const StepVerdict& v) {
  CaseResult result;
  result.figures = {{"loss", v.loss}, {"loss_difference", v.loss_difference}, {"bytes", v.bytes}};
  TensorResult worst{v.worst_tensor, Verdict::pass, Reason::none, {}, ""};
  worst.figures = {{"err_over_bound", v.worst}, {"relative_difference", v.worst_relative}};
  if (v.nonfinite) {
    worst.verdict = Verdict::fail;
    worst.reason = Reason::nonfinite;
    worst.detail = "not finite";
  } else if (v.worst > 1) {
    worst.verdict = Verdict::fail;
    worst.reason = Reason::bound;
    worst.detail =
        join(v.worst, " times its bound away from the monolithic step; the loss is off by ",
             v.loss_difference);
  }
  result.add(std::move(worst));
  if (!v.bytes_differ.empty() && result.verdict == Verdict::pass) {
    result.verdict = Verdict::fail;
    result.reason = Reason::coverage;
    result.detail = v.bytes_differ;
  }
  return result;
}

}  // namespace bdlm
