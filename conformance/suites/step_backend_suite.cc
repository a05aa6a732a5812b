// T4 and T7: the training step of a rank, all ranks as threads.
//
// T4: loss and gradients of every parameter against the monolithic step in double; equal bits on
// all ranks. T7: what the ranks asked the communicator for: the same collectives in the same order,
// as many elements as the ledger has, no format coarser than declared; and the same bits when one
// rank is late.

#include <cmath>

#include "conformance/judge/limits.h"
#include "conformance/suites/attention_traffic.h"
#include "conformance/suites/backend_step.h"
#include "conformance/suites/backend_suite.h"
#include "conformance/suites/largest.h"
#include "conformance/suites/rounding_engine.h"
#include "conformance/suites/same_bits.h"
#include "conformance/suites/step_data.h"
#include "reference/parallel/dense_step.h"
#include "reference/parallel/rank_step.h"
#include "reference/parallel/thread_communicator.h"

namespace bdlm {
namespace {

struct StepBackendCase {
  LayoutCase layout;
  StepSettings settings;
  std::string word;

  CaseId id() const {
    CaseId id = layout.id();
    id.word("step", "step" + word).number("s", static_cast<int64_t>(settings.seed));
    return id;
  }
};

StepProblem problem_of(const StepBackendCase& c, const Contract& contract) {
  StepProblem problem = make_step(c.settings);
  for (double& x : problem.parameters.values()) {
    x = round_to(x, contract.input);
  }
  return problem;
}

BackendStep run(const StepBackendCase& c, const StepProblem& problem, const Backend& backend,
                int late_rank = -1) {
  return run_backend_step(backend, problem.dense, problem.parameters, c.layout.scheme,
                          c.layout.ranks,
                          {problem.options.checkpointing, late_rank, late_rank < 0 ? 0 : 1500});
}

/// The largest u of attention's sites; 0 where none is coarser than the accumulation.
double coarsest_unit(const Contract& contract) {
  double unit = 0;
  for (const Dtype site : {contract.input, contract.p, contract.ds, contract.o, contract.partial_o,
                           contract.gradient, contract.reduce}) {
    unit = std::max(unit, site_unit(contract, site));
  }
  return unit;
}

StepOutcome<double> monolithic(const StepProblem& problem, const Contract* rounding) {
  StepHooks<double> hooks;
  if (rounding != nullptr) {
    hooks.engine = [=](const RankPlan& plan, const AttentionShape& shape, const double& scale,
                       const AttentionOptions&) {
      return std::make_unique<RoundingEngine>(*rounding, plan, shape, scale);
    };
  }
  const Ownership ownership = divide(problem.dense, Scheme::monolithic, 1);
  const LayerPlans plans =
      layer_plans(problem.dense.config, problem.dense.example.sequence, ownership, 0);
  std::optional<StepOutcome<double>> outcome;
  run_ranks(1, [&](Communicator& communicator) {
    outcome = dense_rank_step(problem.dense, problem.parameters, ownership, plans, communicator,
                              problem.options, hooks);
  });
  return std::move(*outcome);
}

CaseResult judge_gradients(const StepBackendCase& c, const Backend& backend) {
  const Contract& contract = backend.contract();
  const StepProblem problem = problem_of(c, contract);
  const BackendStep got = run(c, problem, backend);
  const StepOutcome<double> expected = monolithic(problem, nullptr);
  // Where all terms of a gradient cancel, its size says nothing of its errors: roundings of the
  // accumulation's format at attention's sites do. Not those of O: they would hide that of P where
  // all values that a row sees are equal.
  Contract fine = contract;
  fine.p = fine.ds = fine.gradient = contract.accumulate;
  fine.o = Dtype::f64;
  const StepOutcome<double> other = monolithic(problem, &fine);
  std::optional<StepOutcome<double>> emulated;
  if (coarsest_unit(contract) > 0) {
    emulated = monolithic(problem, &contract);
  }
  CaseResult result;
  for (int r = 1; r < c.layout.ranks; ++r) {
    const std::string differs =
        difference({{"loss", {got.loss[0]}}, {"gradients", got.gradients[0]}},
                   {{"loss", {got.loss[r]}}, {"gradients", got.gradients[r]}});
    if (!differs.empty()) {
      return bitwise_result(join("ranks 0 and ", r, " end with different results"), differs);
    }
  }
  const double units = unit_roundoff(contract.accumulate) / limits::unit_f64 + 1;
  int64_t noticed = 0;
  const auto judge = [&](const std::string& tensor, const double* value, const double* right,
                         const double* again, const double* rounded, int64_t count) {
    double limit = std::max(units * limits::step_relative * largest(right, count),
                            limits::step_reordered * largest_difference(right, again, count));
    double error = 0;
    double product = 0;
    double norm = 0;
    double gain_variance = 0;
    bool finite = true;
    int64_t worst = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double e = std::abs(value[i] - right[i]);
      finite = finite && std::isfinite(value[i]);
      worst = e > error ? i : worst;
      error = std::max(error, e);
      product += value[i] * right[i];
      norm += right[i] * right[i];
      if (rounded != nullptr) {
        const double sample = rounded[i] - right[i];
        limit = std::max(limit, limits::step_emulated * std::abs(sample));
        gain_variance += sample * sample * right[i] * right[i];
      }
    }
    const double gain = norm > 0 ? product / norm : 1;
    const double gain_limit =
        std::max(coarsest_unit(contract) / limits::gain_unit_share,
                 norm > 0 ? limits::gain_deviations * std::sqrt(gain_variance) / norm : 0);
    const bool gain_judged = rounded != nullptr && norm > 0 && gain_limit < limits::gain_measurable;
    TensorResult t{tensor, Verdict::pass, Reason::none, {}, ""};
    t.figures = {{"err_over_h", limit > 0 ? error / limit : error}, {"gain_minus_1", gain - 1}};
    if (!finite || error > limit) {
      t.verdict = Verdict::fail;
      t.reason = finite ? Reason::bound : Reason::nonfinite;
      t.detail = join(tensor, " is off by ", error, ", ", error / limit,
                      " times the bound, at element ", worst, ": ", value[worst], " for ",
                      right[worst], "; as a whole it is the right one times ", gain);
    } else if (gain_judged && std::abs(gain - 1) > gain_limit) {
      t.verdict = Verdict::fail;
      t.reason = Reason::scale;
      t.detail = join(tensor, " is the right one times ", gain, ", where 1 +- ", gain_limit,
                      " is allowed");
    }
    const double off = limits::vacuous_factor - 1;
    const bool notices = off * largest(right, count) > limit || (gain_judged && off > gain_limit);
    noticed += notices ? 1 : 0;
    result.add(std::move(t));
  };
  judge("loss", &got.loss[0], &expected.loss, &other.loss, emulated ? &emulated->loss : nullptr, 1);
  const ParameterTable& table = problem.parameters.table();
  noticed = 0;
  for (size_t n = 0; n < table.entries().size(); ++n) {
    const ParameterEntry& entry = table.entries()[n];
    judge(entry.name, &got.gradients[0][entry.offset], expected.gradients[n], other.gradients[n],
          emulated ? emulated->gradients[n] : nullptr, entry.size);
  }
  if (noticed == 0) {
    result.verdict = std::max(result.verdict, Verdict::mistrusted);
    result.detail = "vacuous: 1.01 times the right gradients would pass";
  }
  return result;
}

/// Elements that the ledger has each rank send for attention.
std::vector<int64_t> ledger_elements(const StepProblem& problem, const Ownership& ownership) {
  const DenseConfig& config = problem.dense.config;
  LedgerOptions options;
  options.scheme = ownership.scheme;
  options.ranks = ownership.ranks;
  options.blocks_of_rank = ownership.blocks;
  options.bytes = {1, 1, 1};
  options.checkpointing =
      problem.options.checkpointing ? Checkpointing::full_recompute : Checkpointing::none;
  options.clean_rule = config.rules.front().clean;
  const Ledger ledger =
      make_ledger(attention_model(config.rules, {config.q_heads, config.kv_heads, config.head_dim}),
                  problem.dense.example.sequence, options);
  std::vector<int64_t> out;
  for (int r = 0; r < ownership.ranks; ++r) {
    out.push_back(ledger.bytes_of_rank(r) * std::ssize(problem.dense.views));
  }
  return out;
}

std::string describe(const TrafficEntry& e) {
  static const char* const names[] = {"all_gather", "reduce_scatter", "send", "receive",
                                      "all_reduce"};
  return join(names[e.operation], " of ", e.elements, ' ', name(e.dtype), " for ", e.purpose);
}

/// The collectives of a rank's log.
std::vector<std::string> collectives(const std::vector<TrafficEntry>& log) {
  std::vector<std::string> out;
  for (const TrafficEntry& e : log) {
    if (e.operation != BDLM_SEND && e.operation != BDLM_RECEIVE) {
      out.push_back(describe(e));
    }
  }
  return out;
}

CaseResult judge_transport(const StepBackendCase& c, const Backend& backend) {
  const Contract& contract = backend.contract();
  const StepProblem problem = problem_of(c, contract);
  const BackendStep got = run(c, problem, backend);
  CaseResult result;
  const auto fail = [&](const std::string& detail) {
    if (result.verdict != Verdict::fail) {
      result.verdict = Verdict::fail;
      result.reason = Reason::coverage;
      result.detail = detail;
    }
  };
  const std::vector<int64_t> ledger =
      ledger_elements(problem, c.layout.ownership(problem.clean_loss));
  int64_t operations = 0;
  const double coarsest = std::max(unit_roundoff(contract.input), unit_roundoff(contract.reduce));
  for (int r = 0; r < c.layout.ranks; ++r) {
    int64_t sent = 0;
    for (const TrafficEntry& e : got.traffic[r]) {
      const bool attention = e.purpose == "attention";
      sent += attention && e.operation != BDLM_RECEIVE ? e.elements : 0;
      if (unit_roundoff(e.dtype) > (attention ? coarsest : unit_roundoff(Dtype::fp32))) {
        fail(join("rank ", r, ": ", describe(e), ", a coarser format than the contract declares"));
      }
      ++operations;
    }
    if (sent != ledger[r]) {
      fail(join("rank ", r, " sent ", sent, " elements for attention where the ledger has ",
                ledger[r]));
    }
    if (collectives(got.traffic[r]) != collectives(got.traffic[0])) {
      fail(join("ranks 0 and ", r, " ask for different collectives, or in another order"));
    }
  }
  result.figures = {{"operations", operations}};
  if (result.verdict == Verdict::pass && c.layout.ranks > 1 && contract.deterministic) {
    const BackendStep late = run(c, problem, backend, c.layout.ranks - 1);
    const std::string differs = difference({{"loss", got.loss}, {"gradients", got.gradients[0]}},
                                           {{"loss", late.loss}, {"gradients", late.gradients[0]}});
    if (!differs.empty()) {
      return bitwise_result("the last rank is late in every operation", differs);
    }
  }
  return result;
}

std::vector<StepBackendCase> step_list(const Selection& selection) {
  std::vector<StepBackendCase> out;
  const bool quick = selection.level == Level::quick;
  for (const int ranks : quick ? std::vector<int>{1, 2, 4} : std::vector<int>{1, 2, 3, 4, 8}) {
    for (const Scheme scheme : {Scheme::monolithic, Scheme::cp, Scheme::bp, Scheme::csbp}) {
      if ((scheme == Scheme::monolithic) != (ranks == 1)) {
        continue;
      }
      const auto add = [&](const Shape& shape, const LayerRule& rule, const std::string& word,
                           auto edit) {
        StepSettings s;
        s.sequence = shape.sequence;
        s.config = two_layers(rule, {.hidden = 24, .head_dim = 8, .mlp = 40, .vocab = 37});
        s.mask_token = 36;
        edit(s);
        for (s.seed = 1; s.seed <= selection.seeds; ++s.seed) {
          out.push_back({{shape, rule, scheme, ranks, BlockAssignment::dual_end}, s, word});
        }
      };
      const auto nothing = [](StepSettings&) {};
      const Shape base{Sequence::uniform(5 * (2 * ranks + 1) - 2, 5), 5, "", ""};
      const Shape packed = shape_of_documents(23, 2, {5, 11, 4});
      const LayerRule block{CleanRule::block_causal, 0};
      const LayerRule causal{CleanRule::token_causal, 4};
      add(base, block, "masked", nothing);
      add(packed, causal, "views", [](StepSettings& s) {
        s.objective = ObjectiveKind::complementary_views;
        s.supervision = Supervision::most;
      });
      add(base, causal, "options", [](StepSettings& s) {
        s.config.qk_norm = true;
        s.config.tied = true;
        s.config.softcap = 5;
        s.config.excluded_logit = s.mask_token;
        s.options.checkpointing = true;
      });
      // Some ranks have nothing to score, or no clean rows at all.
      add(base, block, "firsthalf",
          [](StepSettings& s) { s.supervision = Supervision::first_half; });
      const Shape few{Sequence::uniform(2 * ranks - 1 > 1 ? 2 * ranks - 1 : 3, 1), 1, "", ""};
      add(few, causal, "short", nothing);
      if (!quick) {
        add(base, {CleanRule::token_causal, 0}, "cleanloss",
            [](StepSettings& s) { s.clean_loss = 0.5; });
        add(packed, block, "onetoken", [](StepSettings& s) {
          s.supervision = Supervision::one;
          s.noise = 1;
        });
        add(base, causal, "noisefloor", [](StepSettings& s) { s.noise = 1e-3; });
      }
    }
  }
  return out;
}

}  // namespace

std::vector<BackendCase> step_backend_cases(const Selection& selection) {
  std::vector<BackendCase> out;
  for (const StepBackendCase& c : step_list(selection)) {
    out.push_back({c.id().str(), "T4", c.layout.scheme, c.layout.ranks,
                   [c](const Backend& backend) { return judge_gradients(c, backend); }});
    out.push_back({c.id().word("ztransport", "transport").str(), "T7", c.layout.scheme,
                   c.layout.ranks,
                   [c](const Backend& backend) { return judge_transport(c, backend); }});
  }
  return out;
}

}  // namespace bdlm
