// The training step against the reference in double, under every scheme.

#include <cmath>

#include "conformance/judge/limits.h"
#include "conformance/judge/rounding.h"
#include "optimized/cpu/backend.h"
#include "optimized/cpu/step_driver_test.h"
#include "reference/parallel/dense_step.h"
#include "reference/parallel/step_case_test.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(step_of_a_rank)

namespace {

using test::CaseOptions;
using test::ObjectiveKind;

constexpr LayerRule block{CleanRule::block_causal, 0};
constexpr LayerRule causal{CleanRule::token_causal, 0};
constexpr LayerRule block_window{CleanRule::block_causal, 5};
constexpr LayerRule causal_window{CleanRule::token_causal, 3};

/// T3's limit on a step, in the unit roundoff of float.
double relative_limit() {
  return limits::step_relative / limits::unit_f64 * unit_roundoff(Dtype::fp32);
}

constexpr double largest_double = std::numeric_limits<double>::max();

struct Named {
  std::string name;
  CaseOptions options;
};

std::vector<Named> cases() {
  DenseConfig tied = test::full_config({causal, causal_window});
  tied.tied = true;
  tied.qk_norm = false;
  tied.softcap = 0;
  tied.head_dim = 10;
  DenseConfig wide = test::full_config({block, block_window, block});
  wide.hidden = 70;
  wide.mlp = 130;
  wide.vocab = 150;
  wide.excluded_logit = -1;
  wide.kv_heads = 6;
  return {
      {"even",
       {.sequence = Sequence::uniform(24, 3), .config = test::full_config({block, block_window})}},
      {"uneven",
       {.sequence = Sequence::uniform(23, 4, {{0, 5}, {5, 16}, {16, 21}}),
        .config = test::full_config({block_window, block}),
        .seed = 2}},
      {"one token a block",
       {.sequence = Sequence::uniform(11, 1),
        .config = test::full_config({causal, causal_window}),
        .clean_loss = 0.3,
        .seed = 3}},
      {"one block",
       {.sequence = Sequence::uniform(9, 9),
        .config = test::full_config({block, block_window}),
        .seed = 4}},
      {"views",
       {.sequence = Sequence::uniform(23, 4, {{0, 5}, {5, 23}}),
        .config = tied,
        .objective = ObjectiveKind::complementary_views,
        .seed = 5}},
      {"wide", {.sequence = Sequence::uniform(90, 7), .config = wide, .seed = 6}},
  };
}

/// Parameters that the storage format holds exactly.
DenseParameters<double> rounded(DenseParameters<double> parameters, Dtype dtype) {
  for (double& x : parameters.values()) {
    x = round_to(x, dtype);
  }
  return parameters;
}

/// The largest error of any tensor over its limit.
double worst_error(const test::StepCall& call, const StepResult<double>& expected,
                   const std::string& what) {
  double worst = std::abs(call.loss() - expected.loss) / (relative_limit() * expected.loss);
  for (size_t n = 0; n < call.size(); ++n) {
    const ParameterEntry& entry = expected.gradients.table().entries()[n];
    const auto right = expected.gradients.tensor(entry.name);
    double largest = 0;
    double error = 0;
    for (size_t i = 0; i < right.size(); ++i) {
      largest = std::max(largest, std::abs(right[i]));
      const double got = call.gradient(n).at(static_cast<int64_t>(i));
      const double difference = std::abs(got - right[i]);
      error = std::max(error, std::isnan(got) ? largest_double : difference);
    }
    BOOST_TEST(largest > 0, what << ' ' << entry.name);
    BOOST_TEST(error <= relative_limit() * largest,
               what << ' ' << entry.name << ": off by " << error << " of " << largest);
    worst = std::max(worst, error / (relative_limit() * largest));
  }
  return worst;
}

BOOST_AUTO_TEST_CASE(every_scheme_agrees_with_double) {
  double worst = 0;
  for (const Named& each : cases()) {
    const DenseCase c = test::make_case(each.options);
    const DenseParameters<double> parameters =
        rounded(random_parameters(c.config, each.options.seed), Dtype::fp32);
    const StepResult<double> expected = dense_step(c, parameters, Scheme::monolithic, 1);
    for (const Scheme scheme : {Scheme::monolithic, Scheme::cp, Scheme::bp, Scheme::csbp}) {
      for (const int ranks : {1, 2, 3, 4}) {
        const bool whole_blocks = scheme == Scheme::bp || scheme == Scheme::csbp;
        if ((scheme == Scheme::monolithic && ranks > 1) ||
            (whole_blocks && c.example.sequence.blocks() < ranks)) {
          continue;
        }
        const std::string what = join(each.name, ' ', name(scheme), " P", ranks);
        const test::StepRun run =
            test::run_step_on_threads(bdlm_cpu_backend(), test::fp32, c, parameters, scheme, ranks);
        worst = std::max(worst, worst_error(*run.calls[0], expected, what));
        for (const auto& call : run.calls) {
          BOOST_TEST(call->loss() == run.calls[0]->loss(), what);
          BOOST_TEST((call->bits() == run.calls[0]->bits()), what);
        }
        // What is moved, and in which order, is what the reference moves, in half the bytes.
        const StepResult<double> reference = dense_step(c, parameters, scheme, ranks);
        for (int rank = 0; rank < ranks; ++rank) {
          const auto in_bytes = [](std::vector<LogEntry> log, int64_t divisor) {
            // The loss stays in double.
            std::erase_if(log, [](const LogEntry& e) { return e.purpose == "loss"; });
            for (LogEntry& entry : log) {
              entry.bytes /= divisor;
            }
            return log;
          };
          BOOST_TEST((in_bytes(run.logs[rank], 1) == in_bytes(reference.logs[rank], 2)), what);
        }
      }
    }
  }
  std::printf("steps: largest error %.3f of the limit\n", worst);
}

BOOST_AUTO_TEST_CASE(checkpointing_and_threads_change_no_bits) {
  for (const Named& each : cases()) {
    const DenseCase c = test::make_case(each.options);
    const DenseParameters<double> parameters = random_parameters(c.config, each.options.seed);
    const auto run = [&](const test::StepRunOptions& options) {
      return test::run_step_on_threads(bdlm_cpu_backend(), test::fp32, c, parameters, Scheme::cp, 2,
                                       options)
          .calls[0]
          ->bits();
    };
    const auto plain = run({});
    BOOST_TEST((run({.checkpointing = true}) == plain), each.name);
    for (const int threads : {2, 3}) {
      BOOST_TEST((run({.threads = threads}) == plain), each.name << ", " << threads << " threads");
    }
  }
}

BOOST_AUTO_TEST_CASE(bf16_parameters) {
  for (const Named& each : cases()) {
    const DenseCase c = test::make_case(each.options);
    const DenseParameters<double> parameters =
        rounded(random_parameters(c.config, each.options.seed), Dtype::bf16);
    const StepResult<double> expected = dense_step(c, parameters, Scheme::monolithic, 1);
    const Scheme scheme = c.example.sequence.blocks() < 2 ? Scheme::cp : Scheme::csbp;
    const test::StepRun run =
        test::run_step_on_threads(bdlm_cpu_bf16_backend(), test::bf16, c, parameters, scheme, 2);
    worst_error(*run.calls[0], expected, each.name);
  }
}

// One rank needs no communicator.
BOOST_AUTO_TEST_CASE(monolithic_alone) {
  const DenseCase c = test::make_case(cases()[0].options);
  const DenseParameters<double> parameters = rounded(random_parameters(c.config, 1), Dtype::fp32);
  test::StepCall call(c, parameters, test::fp32, Scheme::monolithic, false);
  const test::Driver driver(bdlm_cpu_backend());
  driver.expect_ok(driver->step(driver.context(), &call.args()));
  worst_error(call, dense_step(c, parameters, Scheme::monolithic, 1), "alone");
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_refused_and_named) {
  const DenseCase c = test::make_case(cases()[0].options);
  const DenseParameters<double> parameters = random_parameters(c.config, 1);
  const test::Driver driver(bdlm_cpu_backend());
  const auto refused = [&](const char* part, const auto& edit) {
    test::StepCall call(c, parameters, test::fp32, Scheme::monolithic, false);
    bdlm_dense_model model = *call.args().model;
    bdlm_layout layout = *call.args().layout;
    bdlm_view view = call.args().views[0];
    std::vector<bdlm_loss_term> terms(view.terms, view.terms + view.term_count);
    view.terms = terms.data();
    call.args().model = &model;
    call.args().layout = &layout;
    call.args().views = &view;
    call.args().view_count = 1;
    edit(call.args(), model, layout, terms[0]);
    BOOST_TEST(driver->step(driver.context(), &call.args()) == BDLM_INVALID, part);
    BOOST_TEST(driver.error().find(part) != std::string::npos, part << ": " << driver.error());
    BOOST_TEST(std::isnan(call.gradient(0).at(0)), part);
  };
  refused("the model is missing", [](auto& a, auto&, auto&, auto&) { a.model = nullptr; });
  refused("head_dim is 3", [](auto&, auto& m, auto&, auto&) { m.head_dim = 3; });
  refused("scheme is 7", [](auto& a, auto&, auto&, auto&) { a.scheme = 7; });
  refused("communicator is missing", [](auto& a, auto&, auto&, auto&) { a.scheme = BDLM_CP; });
  refused("blocks end at 24; the length is 25",
          [](auto&, auto&, auto& l, auto&) { l.length = 25; });
  refused("the label of", [](auto&, auto&, auto&, auto& t) { t.label = 18; });
  refused("row 24", [](auto&, auto&, auto&, auto& t) { t.row = 24; });
  refused("the row sees the token", [](auto&, auto&, auto&, auto& t) { t.stream = BDLM_CLEAN; });
  refused("no parameter called 'lm_head.weight'",
          [](auto& a, auto&, auto&, auto&) { --a.parameter_count; });
  refused("parameter 'model.embed_tokens.weight' has shape (19, 12); it must be (20, 12)",
          [](auto&, auto& m, auto&, auto&) { m.vocab = 20; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
