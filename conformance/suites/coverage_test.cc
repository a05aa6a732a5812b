#include "conformance/suites/coverage.h"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>

#include "reference/schedule/plan_builder.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(coverage)

namespace {

std::vector<Sequence> sequences() {
  return {Sequence::uniform(64, 4),
          Sequence::uniform(67, 4),
          Sequence::uniform(33, 1),
          Sequence::uniform(61, 11),
          Sequence::uniform(64, 4, {{0, 5}, {5, 16}, {16, 20}, {20, 64}}),
          Sequence::uniform(64, 4, {{0, 1}, {1, 16}, {16, 60}}),
          Sequence::uniform(64, 5, {{3, 30}, {34, 60}}),
          Sequence::with_blocks(50, {0, 1, 2, 3, 9, 10, 17, 30, 40})};
}

std::vector<LayerRule> rules() {
  std::vector<LayerRule> out;
  for (const CleanRule clean : {CleanRule::block_causal, CleanRule::token_causal}) {
    for (const int64_t window : {0, 1, 3, 9, 100}) {
      out.push_back({clean, window});
    }
  }
  return out;
}

CoverageReport check(const Sequence& s, const LayerRule& rule, const Ownership& own) {
  const PlanBuilder builder(s, own, rule);
  return check_coverage(s, rule, own, [&](int r) { return builder.rank(r); });
}

/// The violations of CSBP on two ranks after `edit` has changed their plans.
template <class Edit>
std::string after(const LayerRule& rule, Edit edit) {
  const Sequence s = Sequence::uniform(32, 4);
  const Ownership own = divide(s, Scheme::csbp, 2);
  std::vector<RankPlan> plans = build_plans(s, own, rule);
  edit(plans);
  const CoverageReport report = check_coverage(s, rule, own, [&](int r) { return plans[r]; });
  std::string all;
  for (const std::string& text : report.violations.texts()) {
    all += text + "; ";
  }
  return all;
}

/// Applies `edit` to the n-th step of one kind of one rank's list.
template <class Kind, class Edit>
auto on(std::vector<Step> RankPlan::*list, int n, Edit edit) {
  return [=](std::vector<RankPlan>& plans) {
    int seen = 0;
    for (Step& step : plans[0].*list) {
      if (auto* kind = std::get_if<Kind>(&step); kind != nullptr && seen++ == n) {
        edit(*kind);
        return;
      }
    }
    BOOST_FAIL("the plan has no such step");
  };
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_scheme_visits_every_pair_once) {
  for (const Sequence& s : sequences()) {
    for (const LayerRule& rule : rules()) {
      for (const int ranks : {1, 2, 3, 4, 5}) {
        for (const Scheme scheme : {Scheme::monolithic, Scheme::cp, Scheme::bp, Scheme::csbp}) {
          for (const BlockAssignment how : {BlockAssignment::dual_end, BlockAssignment::contiguous,
                                            BlockAssignment::balanced}) {
            if (scheme == Scheme::monolithic && ranks > 1) {
              continue;
            }
            const bool clean_loss = rule.clean == CleanRule::token_causal;
            const CoverageReport report =
                check(s, rule, divide(s, scheme, ranks, {how, clean_loss, {rule}}));
            const std::vector<std::string>& violations = report.violations.texts();
            BOOST_REQUIRE_MESSAGE(violations.empty(),
                                  name(scheme) << " P " << ranks << " w " << rule.window << ": "
                                               << (violations.empty() ? "" : violations.front()));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_million_tokens_on_a_thousand_ranks) {
  const Sequence s = Sequence::uniform(1 << 20, 256);
  for (const LayerRule& rule :
       {LayerRule{CleanRule::block_causal, 0}, LayerRule{CleanRule::token_causal, 1024}}) {
    for (const Scheme scheme : {Scheme::cp, Scheme::bp, Scheme::csbp}) {
      const auto begin = std::chrono::steady_clock::now();
      const CoverageReport report = check(s, rule, divide(s, scheme, 1024));
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      BOOST_TEST(report.violations.empty());
      BOOST_TEST_MESSAGE(name(scheme) << " window " << rule.window << ": " << took.count()
                                      << " s, max/mean pairs " << report.imbalance());
      BOOST_TEST(report.pairs.size() == 1024U);
    }
  }
}

BOOST_AUTO_TEST_CASE(dual_end_is_balanced_where_contiguous_is_not) {
  const Sequence s = Sequence::uniform(1024, 16);
  BOOST_TEST(check(s, {}, divide(s, Scheme::csbp, 4)).imbalance() == 1.0);
  BOOST_TEST(check(s, {}, divide(s, Scheme::csbp, 4, {BlockAssignment::contiguous, false, {}}))
                 .imbalance() > 1.3);
}

// Each wrong plan is seen, and the text says what is wrong with it.
BOOST_AUTO_TEST_CASE(wrong_plans_are_seen) {
  const LayerRule full{};
  const LayerRule sliding{CleanRule::token_causal, 6};
  const auto says = [](const std::string& text, const char* part) {
    BOOST_TEST(text.find(part) != std::string::npos, "'" << text << "' lacks '" << part << "'");
  };
  const auto forward = &RankPlan::forward;
  const auto backward = &RankPlan::backward;
  BOOST_TEST(after(full, [](auto&) {}).empty());
  BOOST_TEST(after(sliding, [](auto&) {}).empty());
  // One row misses its last key; one key twice; a block's own clean rows visible; a block dropped.
  says(after(full, on<Attend>(forward, 1, [](Attend& a) { a.bands[1].keys.end -= 1; })),
       "must see the clean keys");
  says(after(full, on<Attend>(forward, 1,
                              [](Attend& a) {
                                Band more = a.bands[1];
                                more.rows = {more.rows.begin, more.rows.begin + 1};
                                more.keys = {0, 1};
                                a.bands.push_back(more);
                              })),
       "must see the clean keys");
  says(after(full, on<Attend>(forward, 1, [](Attend& a) { a.bands[1].keys.end += 4; })),
       "must see the clean keys");
  says(after(full, on<Attend>(forward, 0, [](Attend& a) { a.bands.pop_back(); })), "give it none");
  says(after(full, on<AttendBackward>(backward, 0, [](auto& a) { a.bands[0].keys.begin += 1; })),
       "backward");
  // A window off by one, on the diagonal.
  says(after(sliding, on<Attend>(forward, 0,
                                 [](Attend& a) {
                                   for (Band& b : a.bands) {
                                     if (b.begin_offset != Band::no_begin) {
                                       b.begin_offset -= 1;
                                     }
                                   }
                                 })),
       "must see the clean keys");
  // The local block counted in the gathered step too; states.
  says(after(full, on<Attend>(forward, 1, [](Attend& a) { a.from_state = false; })), "afresh");
  says(after(full, on<Attend>(forward, 0, [](Attend& a) { a.state = 3; })), "state 3");
  // Attending before the wait; never waiting.
  says(after(full, [](auto& plans) { std::swap(plans[0].forward[2], plans[0].forward[3]); }),
       "before they have arrived");
  says(after(full, [](auto& plans) { plans[0].forward.erase(plans[0].forward.begin() + 2); }),
       "never waited for");
  // Gradients that stay where they are, leave too early, or are returned twice.
  says(after(full,
             [](auto& plans) {
               plans[0].backward.erase(plans[0].backward.begin() + 3);
               plans[0].backward.erase(plans[0].backward.begin() + 1);
             }),
       "never return");
  says(after(full, [](auto& plans) { std::swap(plans[0].backward[0], plans[0].backward[1]); }),
       "after their return");
  // Shards swapped between ranks; a shorter padding.
  says(after(full, on<Gather>(forward, 0,
                              [](Gather& g) {
                                ShardMap swapped{g.shards->at(1), g.shards->at(0)};
                                g.shards = std::make_shared<const ShardMap>(swapped);
                              })),
       "does not hold");
  says(after(full, on<Gather>(forward, 0, [](Gather& g) { g.padded_rows -= 1; })), "is padded to");
  // A halo of w - 2 rows: one side's receive, then both sides' agreement.
  const RowSet fewer(IntervalSet{}, IntervalSet{{20, 24}});
  says(after(sliding, on<Exchange>(forward, 0, [&](Exchange& e) { e.receives[0].rows = fewer; })),
       "each once");
  says(after(sliding, on<Exchange>(forward, 0, [&](Exchange& e) { e.sends[0].rows = fewer; })),
       "sends");
  says(after(sliding, on<Exchange>(forward, 0, [&](Exchange& e) { e.sends.clear(); })),
       "the sender does not send");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
