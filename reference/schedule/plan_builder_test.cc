#include "reference/schedule/plan_builder.h"

#include <boost/test/unit_test.hpp>

#include "reference/base/error.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(plan_builder)

namespace {

/// The pairs of a step's bands as text, for instance "x[0,4)>x[0,4)" (x corrupted, c clean).
std::string text(const std::vector<Band>& bands) {
  std::ostringstream out;
  const auto letter = [](Stream s) { return s == Stream::clean ? 'c' : 'x'; };
  for (const Band& b : bands) {
    out << (out.tellp() > 0 ? " " : "") << letter(b.query_stream) << b.rows << '>'
        << letter(b.key_stream) << b.keys;
  }
  return out.str();
}

RankPlan plan_of(const Sequence& s, Scheme scheme, int ranks, const LayerRule& rule, int rank) {
  return PlanBuilder(s, divide(s, scheme, ranks), rule).rank(rank);
}

}  // namespace

// CSBP on rank 0 of 2, L = 16, M = 4: blocks 0 and 3, clean chunks 0 and 3 of 4, all by hand.
BOOST_AUTO_TEST_CASE(csbp_full_layer_by_hand) {
  const RankPlan plan = plan_of(Sequence::uniform(16, 4), Scheme::csbp, 2, {}, 0);
  BOOST_REQUIRE_EQUAL(plan.forward.size(), 4);
  const auto& gather = std::get<Gather>(plan.forward[0]);
  BOOST_TEST(gather.buffer == 1);
  BOOST_TEST(gather.padded_rows == 8);
  BOOST_TEST((gather.shards->at(0).rows(Stream::clean) == IntervalSet{{0, 4}, {12, 16}}));
  BOOST_TEST((gather.shards->at(1).rows(Stream::clean) == IntervalSet{{4, 12}}));
  const auto& local = std::get<Attend>(plan.forward[1]);
  BOOST_TEST(local.buffer == 0);
  BOOST_TEST(!local.from_state);
  BOOST_TEST(text(local.bands) == "x[0,4)>x[0,4) x[12,16)>x[12,16)");
  BOOST_TEST(std::get<Wait>(plan.forward[2]).token == gather.token);
  const auto& context = std::get<Attend>(plan.forward[3]);
  BOOST_TEST(context.buffer == 1);
  BOOST_TEST(context.from_state);
  BOOST_TEST(text(context.bands) == "x[12,16)>c[0,12) c[0,4)>c[0,4) c[12,16)>c[0,16)");

  BOOST_REQUIRE_EQUAL(plan.backward.size(), 4);
  BOOST_TEST((std::get<AttendBackward>(plan.backward[0]).bands == context.bands));
  BOOST_TEST(std::get<ReduceScatter>(plan.backward[1]).buffer == 1);
  BOOST_TEST((std::get<AttendBackward>(plan.backward[2]).bands == local.bands));
  BOOST_TEST(std::holds_alternative<Wait>(plan.backward[3]));
}

// w = 3 over chunks of 4: rank 0 needs clean 10, 11 of rank 1, and gives it 2, 3.
BOOST_AUTO_TEST_CASE(csbp_sliding_layer_by_hand) {
  const LayerRule rule{CleanRule::token_causal, 3};
  const RankPlan plan = plan_of(Sequence::uniform(16, 2), Scheme::csbp, 2, rule, 0);
  const auto& exchange = std::get<Exchange>(plan.forward.at(0));
  BOOST_REQUIRE_EQUAL(exchange.receives.size(), 1);
  BOOST_TEST(exchange.receives[0].peer == 1);
  BOOST_TEST((exchange.receives[0].rows.rows(Stream::clean) == IntervalSet{{10, 12}}));
  BOOST_REQUIRE_EQUAL(exchange.sends.size(), 1);
  BOOST_TEST((exchange.sends[0].rows.rows(Stream::clean) == IntervalSet{{2, 4}}));
  const auto& across = std::get<Attend>(plan.forward.at(3));
  BOOST_TEST(text(across.bands) == "x[12,14)>c[10,12) c[12,14)>c[10,12)");
  const auto& back = std::get<ExchangeBack>(plan.backward.at(1));
  BOOST_TEST((back.sends[0].rows.rows(Stream::clean) == IntervalSet{{10, 12}}));
  BOOST_TEST((back.receives[0].rows.rows(Stream::clean) == IntervalSet{{2, 4}}));
}

BOOST_AUTO_TEST_CASE(monolithic_and_bp_move_nothing) {
  for (const auto& [scheme, ranks] : {std::pair{Scheme::monolithic, 1}, {Scheme::bp, 2}}) {
    const RankPlan plan = plan_of(Sequence::uniform(16, 4), scheme, ranks, {}, ranks - 1);
    BOOST_REQUIRE_EQUAL(plan.forward.size(), 1);
    BOOST_TEST(std::holds_alternative<Attend>(plan.forward[0]));
    BOOST_REQUIRE_EQUAL(plan.backward.size(), 1);
    BOOST_TEST(std::holds_alternative<AttendBackward>(plan.backward[0]));
  }
}

BOOST_AUTO_TEST_CASE(a_negative_window_is_an_error) {
  const Sequence s = Sequence::uniform(16, 4);
  BOOST_CHECK_THROW(PlanBuilder(s, divide(s, Scheme::csbp, 2), {CleanRule::token_causal, -1}),
                    InputError);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
