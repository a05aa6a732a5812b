#include <boost/test/unit_test.hpp>
#include <cmath>

#include "reference/math/dual.h"
#include "reference/parallel/rank_step.h"
#include "reference/parallel/step_case_test.h"
#include "reference/parallel/thread_communicator.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(step_gradient_suite)

namespace {

using Dual1 = Dual<double>;
using test::CaseOptions;
using test::ObjectiveKind;

/// The loss on one rank, through the plan and the engine; with `gradients`, adds to them.
template <class T>
T monolithic_loss(const DenseCase& c, const DenseParameters<T>& parameters,
                  DenseParameters<T>* gradients) {
  const Ownership ownership = divide(c.example.sequence, Scheme::monolithic, 1);
  const LayerPlans plans = layer_plans(c.config, c.example.sequence, ownership, 0);
  T loss(0);
  run_ranks(1, [&](Communicator& communicator) {
    for (const View& view : c.views) {
      PlannedAttention<T> attention(c.config, plans, communicator);
      const RowSet& rows = plans[0]->rows;
      loss += dense_loss<T>(c.config, parameters, row_inputs(rows, c.example, view),
                            row_terms(rows, ownership.counted[0], view.terms), attention, false,
                            gradients);
    }
  });
  return loss;
}

std::vector<std::pair<std::string, CaseOptions>> cases() {
  constexpr LayerRule block{CleanRule::block_causal, 0};
  constexpr LayerRule causal{CleanRule::token_causal, 0};
  constexpr LayerRule window{CleanRule::token_causal, 3};
  constexpr LayerRule block_window{CleanRule::block_causal, 4};
  const Sequence documents = Sequence::uniform(13, 3, {{0, 5}, {5, 6}, {7, 13}});
  DenseConfig tied = test::full_config({block_window, block});
  tied.tied = true;
  DenseConfig plain = test::full_config({block});
  plain.qk_norm = false;
  plain.softcap = 0;
  plain.excluded_logit = -1;
  return {{"plain", {.sequence = Sequence::uniform(10, 4), .config = plain}},
          {"tied", {.sequence = documents, .config = tied, .seed = 2}},
          {"views",
           {.sequence = documents,
            .config = test::full_config({window, block}),
            .objective = ObjectiveKind::complementary_views,
            .seed = 3}},
          {"clean loss",
           {.sequence = documents,
            .config = test::full_config({window, causal}),
            .clean_loss = 0.5,
            .seed = 4}}};
}

// Storage x1 x2 c0 c3 (x corrupted, c clean): tokens come from their stream, positions from the
// document, terms with their weights, and only of rows that are counted.
BOOST_AUTO_TEST_CASE(rows_and_terms_as_worked_by_hand) {
  const TokenSequence example{
      Sequence::uniform(4, 2, {{0, 1}, {1, 4}}), {3, 1, 4, 2}, {1, 1, 1, 1}};
  const View view{{9, 8, 7, 6},
                  {{Stream::corrupted, 1, 5, 0.5},
                   {Stream::corrupted, 3, 5, 0.25},
                   {Stream::clean, 0, 1, 4.0},
                   {Stream::clean, 3, 2, 8.0}}};
  const RowSet rows({{1, 3}}, {{0, 1}, {3, 4}});
  const std::vector<RowInput> inputs = row_inputs(rows, example, view);
  const int64_t tokens[] = {8, 7, 3, 2};
  const int64_t positions[] = {0, 1, 0, 2};
  BOOST_REQUIRE(inputs.size() == 4u);
  for (int r = 0; r < 4; ++r) {
    BOOST_TEST(inputs[r].token == tokens[r]);
    BOOST_TEST(inputs[r].position == positions[r]);
  }
  const std::vector<RowTerm> terms = row_terms(rows, RowSet({{1, 3}}, {{3, 4}}), view.terms);
  BOOST_REQUIRE(terms.size() == 2u);
  BOOST_TEST((terms[0].row == 0 && terms[0].label == 5 && terms[0].weight == 0.5));
  BOOST_TEST((terms[1].row == 3 && terms[1].label == 2 && terms[1].weight == 8.0));
  BOOST_CHECK_THROW(row_terms(rows, RowSet({{3, 4}}, {}), view.terms), LogicError);
}

// <g, v> = d/de loss(p + e v) by dual numbers through the same plan:
//   |<g, v> - d| <= 1e-14 * sum |g_i v_i|
BOOST_AUTO_TEST_CASE(gradient_along_random_directions) {
  for (const auto& [what, options] : cases()) {
    const DenseCase c = test::make_case(options);
    const DenseParameters<double> parameters = random_parameters(c.config, options.seed);
    DenseParameters<double> gradients(c.config);
    monolithic_loss(c, parameters, &gradients);
    for (uint32_t seed = 0; seed < 4; ++seed) {
      const Philox random(seed, 50);
      DenseParameters<Dual1> moving = parameters.cast<Dual1>();
      double dot = 0;
      double scale = 0;
      for (size_t i = 0; i < moving.values().size(); ++i) {
        const double v = random.gaussian(i);
        moving.values()[i].derivative = v;
        dot += gradients.values()[i] * v;
        scale += std::abs(gradients.values()[i] * v);
      }
      const double along = monolithic_loss<Dual1>(c, moving, nullptr).derivative;
      BOOST_TEST(std::abs(dot - along) <= 1e-14 * scale,
                 what << ": " << std::abs(dot - along) / scale);
    }
  }
}

// |g_i - d_i| <= 1e-14 * max |g| of the tensor, for some coordinates of every tensor.
BOOST_AUTO_TEST_CASE(gradient_of_coordinates) {
  for (const auto& [what, options] : cases()) {
    const DenseCase c = test::make_case(options);
    const DenseParameters<double> parameters = random_parameters(c.config, options.seed);
    DenseParameters<double> gradients(c.config);
    monolithic_loss(c, parameters, &gradients);
    DenseParameters<Dual1> moving = parameters.cast<Dual1>();
    for (const ParameterEntry& entry : parameters.table().entries()) {
      double largest = 0;
      for (const double g : gradients.tensor(entry.name)) {
        largest = std::max(largest, std::abs(g));
      }
      BOOST_TEST(largest > 1e-4, what << " " << entry.name << " " << largest);
      const int64_t stride = std::max<int64_t>(1, entry.size / 5);
      for (int64_t i = entry.offset; i < entry.offset + entry.size; i += stride) {
        moving.values()[i].derivative = 1;
        const double d = monolithic_loss<Dual1>(c, moving, nullptr).derivative;
        moving.values()[i].derivative = 0;
        BOOST_TEST(std::abs(gradients.values()[i] - d) <= 1e-14 * largest,
                   what << " " << entry.name << " " << gradients.values()[i] << " " << d);
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
