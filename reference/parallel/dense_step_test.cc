#include "reference/parallel/dense_step.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "reference/base/error.h"
#include "reference/parallel/step_case_test.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(dense_step_suite)

namespace {

using test::CaseOptions;
using test::ObjectiveKind;

constexpr LayerRule block{CleanRule::block_causal, 0};
constexpr LayerRule causal{CleanRule::token_causal, 0};
constexpr LayerRule block_window{CleanRule::block_causal, 5};
constexpr LayerRule causal_window{CleanRule::token_causal, 3};

/// max |a - b| <= 2e-13 * max |b|, tensor by tensor.
void check_equal(const StepResult<double>& a, const StepResult<double>& b,
                 const std::string& what) {
  BOOST_TEST(std::abs(a.loss - b.loss) <= 1e-13 * std::abs(b.loss), what);
  for (const ParameterEntry& entry : b.gradients.table().entries()) {
    const auto x = a.gradients.tensor(entry.name);
    const auto y = b.gradients.tensor(entry.name);
    double worst = 0;
    double largest = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      largest = std::max(largest, std::abs(y[i]));
      worst = std::max(worst, std::isnan(x[i]) ? 1e300 : std::abs(x[i] - y[i]));
    }
    BOOST_TEST(largest > 0, what << " " << entry.name);
    BOOST_TEST(worst <= 2e-13 * largest,
               what << " " << entry.name << ": " << worst << " of " << largest);
  }
}

/// Every scheme and P against one rank.
void check_schemes(const std::string& name_of_case, const CaseOptions& options) {
  const DenseCase c = test::make_case(options);
  const DenseParameters<double> parameters = random_parameters(c.config, options.seed);
  const StepResult<double> whole = dense_step(c, parameters, Scheme::monolithic, 1);
  for (const Scheme scheme : {Scheme::cp, Scheme::bp, Scheme::csbp}) {
    for (const int ranks : {1, 2, 3, 4}) {
      if (scheme != Scheme::cp && c.example.sequence.blocks() < ranks) {
        BOOST_CHECK_THROW(dense_step(c, parameters, scheme, ranks), InputError);
        continue;
      }
      check_equal(dense_step(c, parameters, scheme, ranks), whole,
                  join(name_of_case, " ", name(scheme), " P", ranks));
    }
  }
}

// loss and gradients of CP, BP, CSBP = those of one rank
BOOST_AUTO_TEST_CASE(schemes_agree_on_masked_block) {
  check_schemes("even", {.sequence = Sequence::uniform(24, 3),
                         .config = test::full_config({block, block_window})});
  check_schemes("uneven", {.sequence = Sequence::uniform(23, 4, {{0, 5}, {5, 16}, {18, 23}}),
                           .config = test::full_config({block_window, block}),
                           .seed = 2});
  check_schemes("one token a block", {.sequence = Sequence::uniform(11, 1),
                                      .config = test::full_config({causal, causal_window}),
                                      .seed = 3});
  check_schemes("one block", {.sequence = Sequence::uniform(9, 9),
                              .config = test::full_config({block, causal_window}),
                              .seed = 4});
  check_schemes("odd blocks", {.sequence = Sequence::with_blocks(21, {0, 7, 9, 10, 18}),
                               .config = test::full_config({causal_window, block}),
                               .seed = 5});
}

BOOST_AUTO_TEST_CASE(schemes_agree_on_complementary_views) {
  check_schemes("views", {.sequence = Sequence::uniform(23, 4, {{0, 5}, {5, 16}, {18, 23}}),
                          .config = test::full_config({causal_window, block}),
                          .objective = ObjectiveKind::complementary_views});
}

// The clean loss: every clean row is counted once, though BP computes it on several ranks.
BOOST_AUTO_TEST_CASE(schemes_agree_with_a_clean_loss) {
  check_schemes("clean", {.sequence = Sequence::uniform(23, 4, {{0, 5}, {5, 16}, {18, 23}}),
                          .config = test::full_config({causal, causal_window}),
                          .clean_loss = 0.5});
  check_schemes("clean and views", {.sequence = Sequence::uniform(24, 3),
                                    .config = test::full_config({causal_window, causal}),
                                    .objective = ObjectiveKind::complementary_views,
                                    .clean_loss = 2});
}

// One denominator for all ranks. Supervised per half {1, 0}, {3, 1}: a rank without supervised
// tokens adds exact zeros; no supervised token at all is an error before anything is computed.
BOOST_AUTO_TEST_CASE(denominators_are_global) {
  CaseOptions options{
      .sequence = Sequence::uniform(8, 1), .config = test::full_config({block}), .noise = 1};
  options.supervised = {0, 1, 0, 0, 0, 0, 0, 0};
  check_schemes("{1,0}", options);
  options.supervised = {1, 1, 1, 0, 0, 0, 0, 1};
  check_schemes("{3,1}", options);
  options.supervised = std::vector<uint8_t>(8, 0);
  BOOST_CHECK_THROW(test::make_case(options), InputError);
}

// Keeping activations or not: the same bits; one more pass of forward traffic.
BOOST_AUTO_TEST_CASE(checkpointing_changes_no_bit) {
  const DenseCase c = test::make_case(
      {.sequence = Sequence::uniform(24, 3), .config = test::full_config({block, block_window})});
  const DenseParameters<double> parameters = random_parameters(c.config, 1);
  for (const Scheme scheme : {Scheme::cp, Scheme::bp, Scheme::csbp}) {
    const StepResult<double> kept = dense_step(c, parameters, scheme, 3);
    const StepResult<double> recomputed =
        dense_step(c, parameters, scheme, 3, {.checkpointing = true});
    BOOST_TEST(recomputed.loss == kept.loss);
    BOOST_TEST((recomputed.gradients.values() == kept.gradients.values()));
    const auto count = [](const StepResult<double>& result, Operation operation) {
      int64_t n = 0;
      for (const LogEntry& entry : result.logs[1]) {
        n += entry.operation == operation && entry.purpose == "attention";
      }
      return n;
    };
    BOOST_TEST(count(recomputed, Operation::all_gather) == 2 * count(kept, Operation::all_gather));
    BOOST_TEST(count(recomputed, Operation::reduce_scatter) ==
               count(kept, Operation::reduce_scatter));
  }
}

// Reversed tiles are other roundings of the same function. (One tile a row leaves no order to
// reverse, so the sequence is long.)
BOOST_AUTO_TEST_CASE(reversed_tiles_change_only_roundings) {
  const DenseCase c = test::make_case(
      {.sequence = Sequence::uniform(300, 20), .config = test::full_config({block})});
  const DenseParameters<double> parameters = random_parameters(c.config, 1);
  const StepResult<double> forward = dense_step(c, parameters, Scheme::monolithic, 1);
  const StepResult<double> reversed =
      dense_step(c, parameters, Scheme::monolithic, 1, {.reverse_tiles = true});
  check_equal(reversed, forward, "reversed");
  BOOST_TEST((reversed.gradients.values() != forward.gradients.values()));
}

// What is logged: "parameters" and "loss" once a step, "attention" once a layer and direction.
BOOST_AUTO_TEST_CASE(transfers_are_logged) {
  const DenseCase c =
      test::make_case({.sequence = Sequence::uniform(24, 3), .config = test::full_config({block})});
  const DenseParameters<double> parameters = random_parameters(c.config, 1);
  const int64_t size = parameters.table().size();
  // K and V of 12 clean rows, 2 KV heads of 4 channels, 8 bytes, to one peer.
  const int64_t shard = 2 * 12 * 2 * 4 * 8;
  const StepResult<double> csbp = dense_step(c, parameters, Scheme::csbp, 2);
  const std::vector<LogEntry> expected = {
      {Operation::all_gather, shard, -1, "attention"},
      {Operation::reduce_scatter, shard, -1, "attention"},
      {Operation::all_reduce, 2 * size * 8 / 2, -1, "parameters"},
      {Operation::all_reduce, 8, -1, "loss"}};
  for (const std::vector<LogEntry>& log : csbp.logs) {
    BOOST_REQUIRE(log.size() == 4u);
    BOOST_TEST((log[0] == expected[0]));
    BOOST_TEST((log[1] == expected[1]));
    BOOST_TEST(log[2].purpose == "parameters");
    BOOST_TEST(log[3].purpose == "loss");
  }
  BOOST_TEST(dense_step(c, parameters, Scheme::bp, 2).logs[0].size() == 2u);
}

BOOST_AUTO_TEST_CASE(cases_that_do_not_fit_are_errors) {
  const DenseCase good =
      test::make_case({.sequence = Sequence::uniform(8, 2), .config = test::full_config({block})});
  const DenseParameters<double> parameters = random_parameters(good.config, 1);
  const auto broken = [&](auto change) {
    DenseCase c = good;
    change(c);
    BOOST_CHECK_THROW(dense_step(c, parameters, Scheme::csbp, 2), InputError);
  };
  broken([](DenseCase& c) { c.views.clear(); });
  broken([](DenseCase& c) { c.views[0].corrupted_tokens[0] = c.config.vocab; });
  broken([](DenseCase& c) { c.views[0].terms.at(0).label = c.config.excluded_logit; });
  broken([](DenseCase& c) { c.views[0].terms.at(0).label = -1; });
  broken([](DenseCase& c) { c.views[0].terms.at(0).row = 8; });
  broken([](DenseCase& c) { c.views[0].terms.at(0).stream = Stream::clean; });
  broken([](DenseCase& c) { c.example.tokens.pop_back(); });
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
