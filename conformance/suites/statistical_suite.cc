// T4: is a backend's attention as accurate as its precision contract allows? Each rank program of a
// scheme, its calls made through the plug-in, against the definition in double and the bounds of
// exactly that division into calls.

#include <map>
#include <set>

#include "conformance/judge/judge_attention.h"
#include "conformance/suites/attention_traffic.h"
#include "conformance/suites/backend_failure.h"
#include "conformance/suites/backend_run.h"
#include "conformance/suites/backend_suite.h"
#include "conformance/suites/partial_sums.h"

namespace bdlm {
namespace {

struct StatisticalCase {
  LayoutCase layout;
  AttentionShape shape;
  DataKind data = DataKind::gauss;
  uint64_t seed = 1;

  std::string id() const {
    CaseId id = layout.id();
    id.heads(shape.q_heads, shape.kv_heads).number("d", shape.head_dim);
    id.word("data", name(data)).number("s", static_cast<int64_t>(seed));
    return id.str();
  }
};

/// Data on which some tensors carry next to no information by construction: dQ of equal keys is 0,
/// and scores of 1e4 leave one key and no gradient of scores.
bool degenerate(DataKind kind) {
  return kind == DataKind::equal_maxima || kind == DataKind::scores_80 ||
         kind == DataKind::scores_1e4;
}

CaseResult judge(const StatisticalCase& c, const Backend& backend) {
  const Sequence& sequence = c.layout.shape.sequence;
  const Contract& contract = backend.contract();
  const AttentionProblem<double> problem =
      backend_data(c.shape, sequence.length(), c.data, c.seed, contract);
  std::vector<TensorResult> tensors;
  // By output: whether some rank's could have failed. A rank that holds only rows of one key has
  // gradients of 0, which zeros would pass, too.
  std::map<std::string, bool> trusted;
  std::vector<std::vector<LogEntry>> logs;
  const auto groups = groups_of(c.layout);
  for (const std::vector<RankPlan>& group : groups) {
    const Decomposition decomposition = of_plans(sequence, c.layout.rule, group);
    const BackendOutcome outcome = run_on_backend(backend, sequence, c.layout.rule, group, problem);
    logs.insert(logs.end(), outcome.logs.begin(), outcome.logs.end());
    const ExpectedAttention expected = expected_attention(problem, decomposition, contract);
    for (TensorResult& t : judge_attention(problem, decomposition, expected, outcome.outputs,
                                           c.data == DataKind::gauss)) {
      if (t.verdict == Verdict::mistrusted && degenerate(c.data)) {
        t.verdict = Verdict::pass;
        t.figures.emplace_back("vacuous", "by construction");
      }
      trusted[t.tensor] = trusted[t.tensor] || t.verdict != Verdict::mistrusted;
      tensors.push_back(std::move(t));
    }
  }
  CaseResult result;
  const size_t outputs = tensors.size() / groups.size();
  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorResult& t = tensors[i];
    if (t.verdict == Verdict::mistrusted && trusted[t.tensor]) {
      t.verdict = Verdict::pass;
      t.detail.clear();
      t.figures.emplace_back("vacuous", "on this rank, not on others");
    }
    if (groups.size() > 1) {
      t.tensor += join(" of rank ", groups[i / outputs][0].rank);
    }
    result.add(std::move(t));
  }
  const std::string bytes = compare_bytes(
      ledger_bytes(
          c.layout, c.shape,
          ElementBytes{size_of(contract.input), size_of(contract.reduce), size_of(contract.lse)}),
      logs);
  require<LogicError>(bytes.empty(), "the suite's own engine: ", bytes);
  return result;
}

constexpr DataKind hostile[] = {DataKind::scores_80,    DataKind::scores_1e4,
                                DataKind::local_above,  DataKind::local_below,
                                DataKind::equal_maxima, DataKind::cancelling};

constexpr AttentionShape many_heads[] = {{1, 1, 16},  {3, 1, 24},  {8, 2, 64}, {16, 1, 16},
                                         {12, 2, 96}, {2, 1, 128}, {6, 3, 80}, {2, 1, 256},
                                         {1, 1, 512}, {2, 2, 40}};

}  // namespace

std::vector<BackendCase> statistical_cases(const Selection& selection) {
  std::vector<StatisticalCase> cases;
  const bool quick = selection.level == Level::quick;
  constexpr AttentionShape small{4, 2, 16};
  const auto add_gauss = [&](const LayoutCase& layout, const AttentionShape& heads,
                             uint64_t at_least = 1) {
    for (uint64_t seed = 1; seed <= std::max(at_least, selection.seeds); ++seed) {
      cases.push_back({layout, heads, DataKind::gauss, seed});
    }
  };
  // Data and heads on one shape that every scheme shares unevenly.
  const std::vector<int> all_ranks =
      selection.ranks.empty() ? (quick ? std::vector<int>{1, 2, 4} : rank_counts(selection.level))
                              : selection.ranks;
  for (const int ranks : all_ranks) {
    const Shape base{Sequence::uniform(8 * (2 * ranks + 1) - 3, 8), 8, "", ""};
    for (const Scheme scheme : {Scheme::monolithic, Scheme::cp, Scheme::bp, Scheme::csbp}) {
      if (!chosen(selection.schemes, scheme) || (scheme == Scheme::monolithic) != (ranks == 1)) {
        continue;
      }
      for (const LayerRule& rule :
           {LayerRule{CleanRule::block_causal, 0}, LayerRule{CleanRule::token_causal, 11}}) {
        const LayoutCase layout{base, rule, scheme, ranks, BlockAssignment::dual_end};
        // Documents, and rows that see nothing at all: padding.
        const Shape packed = shape_of_documents(41, 4, {5, 11, 1, 19});
        add_gauss({packed, rule, scheme, ranks, BlockAssignment::dual_end}, small);
        add_gauss(layout, small, selection.level == Level::full ? 8 : 1);
        for (const DataKind kind : hostile) {
          cases.push_back({layout, small, kind, 1});
        }
        const bool heads_here = scheme == Scheme::monolithic || scheme == Scheme::csbp;
        if (quick && (rule.window > 0 || ranks == 2 || !heads_here)) {
          continue;
        }
        for (const AttentionShape& heads : many_heads) {
          add_gauss(layout, heads);
        }
      }
    }
  }
  // A longer row: sums over more keys than a tile. Kernels for 128 channels have tiles of 128.
  for (const int64_t length : quick ? std::vector<int64_t>{257} : std::vector<int64_t>{257, 601}) {
    const Shape shape{Sequence::uniform(length, 32), 32, "", ""};
    for (const Scheme scheme : {Scheme::monolithic, Scheme::csbp}) {
      const int ranks = scheme == Scheme::monolithic ? 1 : 3;
      const bool wanted =
          selection.ranks.empty() ||
          std::find(selection.ranks.begin(), selection.ranks.end(), ranks) != selection.ranks.end();
      if (chosen(selection.schemes, scheme) && wanted) {
        for (const int64_t head_dim : {64, 128}) {
          add_gauss({shape, {CleanRule::block_causal, 0}, scheme, ranks, BlockAssignment::dual_end},
                    {2, 1, head_dim});
        }
      }
    }
  }
  if (!quick) {
    for (const LayoutCase& layout : selected_layouts(selection)) {
      add_gauss(layout, small);
    }
  }
  std::vector<BackendCase> out;
  std::set<std::string> ids;
  for (const StatisticalCase& c : cases) {
    if (ids.insert(c.id()).second) {
      out.push_back({c.id(), "T4", c.layout.scheme, c.layout.ranks,
                     [c](const Backend& backend) { return judge(c, backend); }});
    }
  }
  return out;
}

}  // namespace bdlm
