#include "conformance/mutants/mutation.h"

#include <map>
#include <nlohmann/json.hpp>

#include "reference/base/error.h"

namespace bdlm {
namespace {

/// The layouts under which plans are judged, as parts of ids: uneven blocks and shards; windows
/// above and below the block size, in either rule; documents off the grid with padding behind.
const std::vector<std::string> layouts{
    "L20-M3-blockcausal",
    "L20-M3-w4-tokencausal",
    "L27-M4-w6-blockcausal",
    "L27-M4-w6-tokencausal",
    "L27-M4-w1-tokencausal",
    "L21-M2-tokencausal-docs5.11p5",
    "L21-M2-w4-blockcausal-docs5.11p5",
};

}  // namespace

std::vector<SuiteCase> mutation_cases() {
  const std::vector<std::string> schemes{"csbp-P3-", "cp-P3-", "bp-P3-"};
  std::vector<std::string> ids;
  const auto add = [&](const std::string& id) {
    for (const std::string& scheme : schemes) {
      ids.push_back(scheme + id);
    }
  };
  for (const std::string& layout : layouts) {
    add(layout);
  }
  add("L20-M3-h4k2-d2-exact-integers-blockcausal-s1");
  add("L20-M3-w4-h4k2-d2-exact-integers-tokencausal-s1");
  add("L27-M4-w6-h4k2-d2-exact-integers-blockcausal-s1");
  add("L27-M4-w1-h4k2-d2-exact-integers-tokencausal-s1");
  add("L21-M2-w4-h4k2-d2-exact-integers-blockcausal-docs5.11p5-s1");
  add("L20-M3-h4k2-d4-f64-gauss-blockcausal-s1");
  add("L27-M4-w1-h4k2-d4-f64-gauss-tokencausal-s1");
  add("L21-M2-w4-h4k2-d4-f64-gauss-blockcausal-docs5.11p5-s1");
  add("L33-M5-h4k2-d4-f64-localabove-blockcausal-s1");
  add("L33-M5-w7-h4k2-d4-f64-localbelow-tokencausal-s1");
  add("L20-M3-f64-blockcausal-stepmasked-s1");
  add("L20-M3-f64-blockcausal-stepcheckpointing-s1");
  add("L20-M3-f64-blockcausal-stepfirsthalf-s1");
  add("L20-M3-f64-blockcausal-stepoptions-s1");
  add("L20-M3-w4-f64-tokencausal-stepcleanloss-s1");
  add("L21-M2-w3-f64-tokencausal-docs5.11p5-stepviewscleanloss-s1");

  Selection selection;
  selection.level = Level::gate;
  selection.ranks = {3};
  std::map<std::string, SuiteCase> by_id;
  std::vector<SuiteCase> out;
  for (SuiteCase& c : select_cases(selection)) {
    by_id.emplace(c.id, std::move(c));
  }
  for (const char* tier : {"T0", "T2", "T3"}) {
    for (const std::string& id : ids) {
      const auto found = by_id.find(id);
      require<LogicError>(found != by_id.end(), "the suite has no case ", id,
                          ", by which mutants are judged");
      if (found->second.tier == tier) {
        out.push_back(found->second);
      }
    }
  }
  return out;
}

MutantResult judge_mutant(const Mutant& mutant, const std::vector<SuiteCase>& cases,
                          bool every_tier) {
  MutantResult result{mutant.name, mutant.kind, mutant.what, {}, 0};
  const bool attention = mutant.subject.changes_attention();
  for (const SuiteCase& c : cases) {
    if (!c.whole_step && !attention) {
      continue;
    }
    const bool judged = !result.kills.empty() && result.kills.back().tier == c.tier;
    if (judged && result.kills.back().verdict == Verdict::fail) {
      continue;
    }
    if (!judged && !result.kills.empty() && !every_tier) {
      break;
    }
    const CaseResult judgement = run_case(c, mutant.subject);
    ++result.cases;
    if (!is_failure(judgement.verdict, judgement.reason, false)) {
      continue;
    }
    const Kill kill{c.tier, c.id, judgement.verdict, judgement.reason, judgement.detail};
    if (!judged) {
      result.kills.push_back(kill);
    } else if (kill.verdict == Verdict::fail) {
      result.kills.back() = kill;
    }
  }
  return result;
}

std::string mutation_report(const RunInfo& run, int64_t cases,
                            const std::vector<MutantResult>& results) {
  using OrderedJson = nlohmann::ordered_json;
  OrderedJson document = {{"format", "bdlm-mutation-1"},
                          {"commit", run.commit},
                          {"device", run.device},
                          {"versions", OrderedJson::object()}};
  for (const auto& [what, version] : run.versions) {
    document["versions"][what] = version;
  }
  const auto killed = std::count_if(results.begin(), results.end(),
                                    [](const MutantResult& r) { return !r.kills.empty(); });
  document["summary"] = {{"faults", results.size()}, {"killed", killed}, {"cases", cases}};
  document["faults"] = OrderedJson::array();
  for (const MutantResult& r : results) {
    const Kill first = r.kills.empty() ? Kill{} : r.kills.front();
    const bool survived = r.kills.empty();
    OrderedJson fault = {{"name", r.name},
                         {"class", r.kind},
                         {"what", r.what},
                         {"killed_by", OrderedJson::array()},
                         {"verdict", survived ? "" : name(first.verdict)},
                         {"reason", name(first.reason)},
                         {"case", first.id},
                         {"diagnosis", first.diagnosis},
                         {"kills", OrderedJson::array()}};
    for (const Kill& kill : r.kills) {
      fault["killed_by"].push_back(kill.tier);
      fault["kills"].push_back({{"tier", kill.tier},
                                {"case", kill.id},
                                {"verdict", name(kill.verdict)},
                                {"reason", name(kill.reason)},
                                {"diagnosis", kill.diagnosis}});
    }
    document["faults"].push_back(std::move(fault));
  }
  return document.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

}  // namespace bdlm
