// Our own programs, written and read again, are right; edited ones are not.

#include "conformance/doors/judge_plan.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "reference/base/error.h"
#include "reference/schedule/plan_builder.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(judging_plans)

namespace {

PlanFile plan_file_of(const Sequence& sequence, const LayerRule& rule, Scheme scheme, int ranks) {
  PlanFile out;
  out.sequence = sequence;
  out.rule = rule;
  out.kv_row_bytes = 128;
  out.gradient_row_bytes = 256;
  const Ownership ownership =
      divide(sequence, scheme, ranks, {BlockAssignment::dual_end, false, {rule}});
  out.plans = build_plans(sequence, ownership, rule);
  out.declared.resize(ranks);
  return out;
}

Json json_of(const PlanFile& file) {
  return Json::parse(write_plan(file));
}

PlanFile read(const Json& json) {
  return parse_plan(view(json, "p.json"));
}

/// The first thing wrong with a program after an edit: of the reader, or of the judge.
template <class F>
std::string fault(F edit, Scheme scheme = Scheme::csbp, int64_t window = 0) {
  Json json =
      json_of(plan_file_of(Sequence::uniform(32, 4), {CleanRule::block_causal, window}, scheme, 2));
  edit(json);
  try {
    const PlanVerdict verdict = judge_plan(read(json));
    return verdict.violations.empty() ? "right" : verdict.violations.texts().front();
  } catch (const InputError& error) {
    return error.what();
  }
}

void begins(const std::string& text, const std::string& with) {
  BOOST_TEST(text.substr(0, with.size()) == with);
}

BOOST_AUTO_TEST_CASE(own_programs_are_right) {
  const Sequence documents = Sequence::uniform(61, 4, {{0, 5}, {5, 16}, {16, 17}, {17, 56}});
  for (const Sequence& sequence : {Sequence::uniform(32, 4), documents}) {
    for (const Scheme scheme : {Scheme::monolithic, Scheme::cp, Scheme::bp, Scheme::csbp}) {
      for (const int ranks : {1, 2, 4}) {
        for (const int64_t window : {0, 6}) {
          if (scheme == Scheme::monolithic && ranks > 1) {
            continue;
          }
          const PlanFile file =
              plan_file_of(sequence, {CleanRule::token_causal, window}, scheme, ranks);
          const std::string text = write_plan(file);
          const PlanFile again = read(Json::parse(text));
          BOOST_TEST(write_plan(again) == text);
          const PlanVerdict verdict = judge_plan(again);
          for (const std::string& line : verdict.violations.texts()) {
            BOOST_ERROR(name(scheme) << ' ' << ranks << ' ' << window << ": " << line);
          }
          BOOST_TEST((verdict.replicated_clean_rows > 0) == (scheme == Scheme::bp && ranks > 1));
          BOOST_TEST(verdict.imbalance >= 1);
        }
      }
    }
  }
}

// Gather of 16 padded rows to one other rank, 128 bytes each; the reduce-scatter with 256.
BOOST_AUTO_TEST_CASE(bytes) {
  const PlanVerdict verdict =
      judge_plan(plan_file_of(Sequence::uniform(32, 4), {}, Scheme::csbp, 2));
  BOOST_TEST(verdict.sent[0].forward == 16 * 128);
  BOOST_TEST(verdict.sent[1].backward == 16 * 256);
}

BOOST_AUTO_TEST_CASE(wrong_programs) {
  using F = void (*)(Json&);
  const std::vector<std::pair<F, std::string>> faults{
      {[](Json&) {}, "right"},
      // Own clean block visible: block-causal keys of a corrupted band end a block late.
      {[](Json& j) { j["ranks"][0]["forward"][3]["bands"][1]["keys"][1] = 8; }, "rank 0 forward: "},
      {[](Json& j) { j["ranks"][1]["backward"][0]["bands"].erase(0); }, "rank 1 backward: "},
      {[](Json& j) { j["ranks"][0]["forward"][2]["token"] = 7; },
       "rank 0 forward: waits for token 7"},
      {[](Json& j) { j["ranks"][0]["forward"].erase(2); }, "rank 0 forward: "},
      {[](Json& j) { j["ranks"][0]["forward"][3]["from_state"] = false; },
       "rank 0 forward: attends rows"},
      {[](Json& j) {
         j["ranks"][1]["rows"]["corrupted"] = {{0, 32}};
       },
       "rank 1: corrupted rows [0,8) are computed by a rank before it, too"},
      {[](Json& j) { j["ranks"][0]["sent_bytes"]["forward"] = 1; },
       "rank 0 forward: declares 1 bytes sent; its steps send 2048"},
      {[](Json& j) { j["ranks"][1]["backward"].erase(1); }, "rank 1 backward: "},
      {[](Json& j) {
         j["shards"]["shards0"][0]["clean"] = {{0, 8}};
       },
       "rank 0 forward: "}};
  for (const auto& [edit, text] : faults) {
    begins(fault(edit), text);
  }
  // A halo row that the peer does not send.
  begins(fault(
             [](Json& j) {
               Json& first = j["ranks"][0]["forward"][0]["sends"][0]["rows"]["clean"][0];
               first[0] = first[0].get<int64_t>() + 1;
             },
             Scheme::csbp, 6),
         "messages from rank 0 to rank 1: the receiver does not expect just these rows");
}

BOOST_AUTO_TEST_CASE(malformed_files) {
  using F = void (*)(Json&);
  const std::vector<std::pair<F, std::string>> faults{
      {[](Json& j) { j["format"] = "x"; },
       "p.json: key 'format' is 'x'; allowed is bdlm-rank-programs-1"},
      {[](Json& j) { j["sequence"]["length"] = int64_t{1} << 40; },
       "p.json: key 'sequence.length' is 1099511627776; allowed is"},
      {[](Json& j) {
         j["sequence"]["block_starts"] = {0, 9, 4};
       },
       "p.json: key 'sequence': "},
      {[](Json& j) { j["sequence"]["block_size"] = 4; },
       "p.json: key 'sequence' must have one of the keys"},
      {[](Json& j) {
         j["sequence"] = {{"length", 1 << 30}, {"block_size", 1}};
       },
       "p.json: key 'sequence.block_size' is 1, which makes more than 4194304 blocks"},
      {[](Json& j) { j["ranks"][1]["rank"] = 0; },
       "p.json: key 'ranks[1].rank' is 0, which occurs a second time"},
      {[](Json& j) {
         j["ranks"][0]["rows"]["clean"] = {{0, 8}, {4, 12}};
       },
       "p.json: key 'ranks[0].rows.clean[1]' is [4,12), which overlaps or precedes"},
      {[](Json& j) {
         j["ranks"][0]["rows"]["clean"] = {{0, 99}};
       },
       "p.json: key 'ranks[0].rows.clean[0][1]' is 99"},
      {[](Json& j) { j["ranks"][0]["forward"][0]["shards"] = "none"; },
       "p.json: key 'ranks[0].forward[0].shards' is 'none', which key 'shards'"},
      {[](Json& j) { j["ranks"][0]["forward"][0]["step"] = "jump"; },
       "p.json: key 'ranks[0].forward[0].step' is 'jump'; known are attend"},
      {[](Json& j) { j["ranks"][0]["forward"][1]["buffer"] = 64; },
       "p.json: key 'ranks[0].forward[1].buffer' is 64; allowed is"},
      {[](Json& j) { j["ranks"] = Json::array(); }, "p.json: key 'ranks' has 0 ranks"},
      {[](Json& j) { j["shards"]["shards0"].erase(0); },
       "p.json: key 'shards.shards0' has the rows of 1 ranks; the file has 2"},
      {[](Json& j) { j["ranks"][0]["speed"] = 1; }, "p.json: "}};
  for (const auto& [edit, text] : faults) {
    begins(fault(edit), text);
  }
}

BOOST_AUTO_TEST_CASE(examples) {
  const PlanVerdict right = judge_plan(read_plan(join(BDLM_DOORS_FOLDER, "/examples/ring.json")));
  for (const std::string& line : right.violations.texts()) {
    BOOST_ERROR(line);
  }
  const PlanVerdict wrong =
      judge_plan(read_plan(join(BDLM_DOORS_FOLDER, "/examples/wrong_own_block.json")));
  BOOST_TEST_REQUIRE(!wrong.violations.empty());
  begins(wrong.violations.texts().front(),
         "rank 1 forward: corrupted row 8 (of [8,12)) must see the clean keys [0,8) once, but ");
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
