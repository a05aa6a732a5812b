// What kind of mistake a probe's faults look like.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "conformance/judge/limits.h"
#include "conformance/suites/probe.h"
#include "reference/base/error.h"
#include "reference/layout/visibility.h"

namespace bdlm {
namespace {

class Diagnosis {
 public:
  Diagnosis(const Sequence& sequence, const LayerRule& rule, const std::vector<RankPlan>& plans,
            const AttentionShape& shape, const ProbeFaults& faults)
      : sequence_(sequence), rule_(rule), plans_(plans), shape_(shape), faults_(faults) {}

  std::string run() const {
    for (const std::string& text : {first_head_only(), base_2()}) {
      if (!text.empty()) {
        return text;
      }
    }
    // The most frequent class of the most telling kind; of the forward where that is wrong, too,
    // since the backward follows it.
    struct Class {
      int kind = 0;
      int64_t count = 0;
      const PairFault* first = nullptr;
      std::set<std::array<int64_t, 4>> pairs;
    };
    std::map<std::string, Class> classes;
    int64_t fractions = 0;
    int64_t all = 0;
    const bool forward = std::any_of(faults_.faults.begin(), faults_.faults.end(),
                                     [](const PairFault& f) { return is(f, "O"); });
    for (const PairFault& f : faults_.faults) {
      if (forward && !is(f, "O")) {
        continue;
      }
      const auto [kind, text] = classify(f);
      Class& c = classes[text];
      c.kind = kind;
      c.first = c.first == nullptr ? &f : c.first;
      ++c.count;
      c.pairs.insert(
          {static_cast<int64_t>(f.stream), f.row, static_cast<int64_t>(f.key_stream), f.key});
      ++all;
      fractions += kind == fraction ? 1 : 0;
    }
    // Wrong weights give whole numbers, too, now and then.
    const bool weights = 4 * fractions >= all;
    const std::pair<const std::string, Class>* best = nullptr;
    for (const auto& each : classes) {
      const auto order = [&](const Class& c) {
        return std::pair(weights && c.kind == fraction ? 1 : -c.kind, c.count);
      };
      if (best == nullptr || order(each.second) > order(best->second)) {
        best = &each;
      }
    }
    if (best == nullptr) {
      return "";
    }
    std::string text = best->first;
    if (best->second.kind == missing && best->second.pairs.size() == 1) {
      text = "one row misses one key";
    }
    return join(text, forward ? "" : " in the backward", ": ", best->second.count, " of ",
                faults_.count, " faults, first ", describe(*best->second.first));
  }

 private:
  // Kinds, the most telling first.
  enum Kind { nonfinite, wrong_head, wrong_count, forbidden, doubled, missing, fraction };
  static constexpr const char* missing_elsewhere = "keys missing";

  static bool is(const PairFault& f, const char* output) {
    return std::string_view(f.output) == output;
  }

  int rank_of(Stream stream, int64_t row) const {
    for (const RankPlan& plan : plans_) {
      if (plan.rows.find(stream, row) >= 0) {
        return plan.rank;
      }
    }
    return -1;
  }

  /// In dV, dQ and dK of one head of a group alone.
  std::string first_head_only() const {
    if (shape_.group() == 1) {
      return "";
    }
    int64_t count = 0;
    for (const PairFault& f : faults_.faults) {
      const bool others = f.head % shape_.group() != 0 && f.expected == 1 && f.measured < 0.5;
      if (!others || is(f, "O") || is(f, "LSE") || is(f, "dQ")) {
        return "";
      }
      ++count;
    }
    return count == 0
               ? ""
               : join("dK and dV have only the first query head of each group: ", faults_.count,
                      " faults, first ", describe(faults_.faults[0]));
  }

  /// Numbers of keys that are right as powers of 2 instead of e.
  std::string base_2() const {
    int64_t count = 0;
    int64_t explained = 0;
    const PairFault* first = nullptr;
    for (const PairFault& f : faults_.faults) {
      if (is(f, "LSE")) {
        const double n = std::exp2(std::log(std::max(f.measured, 1e-300)));
        first = first == nullptr ? &f : first;
        ++count;
        explained +=
            f.expected > 1 && std::abs(n - static_cast<double>(f.expected)) < limits::probe_residual
                ? 1
                : 0;
      }
    }
    return 2 * explained <= count ? ""
                                  : join("LSE in base 2: ", explained, " of ", count,
                                         " rows, first ", describe(*first));
  }

  std::pair<Kind, std::string> classify(const PairFault& f) const {
    if (!std::isfinite(f.measured)) {
      return {nonfinite, "a result is not finite"};
    }
    if (is(f, "LSE")) {
      return {wrong_count, "a row's number of keys is wrong"};
    }
    const auto times = static_cast<int64_t>(std::llround(f.measured));
    const bool whole = std::abs(f.measured - static_cast<double>(times)) < limits::probe_residual;
    if (f.head / shape_.group() != f.kv_head) {
      return {wrong_head, is(f, "O") || is(f, "dQ")
                              ? "query heads read other KV heads than theirs"
                              : "dK and dV of other KV heads than a query head's"};
    }
    if (f.expected == 0) {
      return {forbidden, forbidden_class(f)};
    }
    if (times >= 2) {
      return {doubled, rank_of(f.stream, f.row) == rank_of(f.key_stream, f.key)
                           ? "a rank's own keys counted more than once"
                           : "other ranks' keys counted more than once"};
    }
    if (!whole || times != 0) {
      return {fraction, "weights are wrong: a partial result counts for too much or too little"};
    }
    return {missing, missing_class(f)};
  }

  std::string forbidden_class(const PairFault& f) const {
    const Interval seen = visible(sequence_, rule_, f.stream, f.row, f.key_stream);
    const int64_t block = sequence_.block_of(f.row);
    const int64_t key_block = sequence_.block_of(f.key);
    if (sequence_.is_padding(f.row) || sequence_.is_padding(f.key)) {
      return "padding attended";
    }
    if (sequence_.document_of(f.row) != sequence_.document_of(f.key)) {
      return "another document's keys visible";
    }
    if (f.stream == Stream::clean && f.key_stream == Stream::corrupted) {
      return "clean rows see corrupted keys";
    }
    if (f.key_stream == Stream::corrupted) {
      return "corrupted keys of another block visible";
    }
    if (f.stream == Stream::corrupted && key_block == block) {
      return "own clean block visible";
    }
    if (key_block > block) {
      return "later blocks visible";
    }
    if (f.key >= seen.end) {
      return "later keys of the own block visible under token-causal rows";
    }
    const char* rows = f.stream == Stream::clean ? "clean" : "corrupted";
    return f.key + 1 == seen.begin ? join("window off by one: one key too many for ", rows, " rows")
                                   : join("window not applied to ", rows, " rows");
  }

  std::string missing_class(const PairFault& f) const {
    const Interval seen = visible(sequence_, rule_, f.stream, f.row, f.key_stream);
    const int64_t block = sequence_.block_of(f.row);
    const char* rows = f.stream == Stream::clean ? "clean" : "corrupted";
    if (f.key_stream == Stream::corrupted) {
      return rank_of(f.stream, f.row) == rank_of(f.key_stream, f.key)
                 ? "keys of the row's own corrupted block missing"
                 : "other ranks' corrupted keys missing";
    }
    if (rule_.window > 0 && f.key == seen.begin && f.key > sequence_.document_of(f.row).begin) {
      return join("window off by one: one key too few for ", rows, " rows");
    }
    const int rank = rank_of(f.stream, f.row);
    const int owner = rank_of(f.key_stream, f.key);
    if (plans_.size() > 1 && owner >= 0 && owner != rank) {
      return "other ranks' keys missing";
    }
    if (f.stream == Stream::corrupted && sequence_.block_of(f.key) + 1 == block) {
      return "the previous block's clean keys missing";
    }
    return missing_elsewhere;
  }

  static std::string describe(const PairFault& f) {
    std::string text = join(f.output, " of ", name(f.stream), " row ", f.row, ", head ", f.head);
    if (!is(f, "LSE")) {
      text += join(" with ", name(f.key_stream), " key ", f.key, ", KV head ", f.kv_head);
    }
    return text + join(": measured ", f.measured, " for ", f.expected);
  }

  const Sequence& sequence_;
  const LayerRule& rule_;
  const std::vector<RankPlan>& plans_;
  AttentionShape shape_;
  const ProbeFaults& faults_;
};

}  // namespace

std::string diagnose(const Sequence& sequence, const LayerRule& rule,
                     const std::vector<RankPlan>& plans, const AttentionShape& shape,
                     const ProbeFaults& faults) {
  return Diagnosis(sequence, rule, plans, shape, faults).run();
}

}  // namespace bdlm
