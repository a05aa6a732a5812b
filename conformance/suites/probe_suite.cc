// T1: multiplicities of (query, key) pairs under every scheme, on any backend.

#include <set>

#include "conformance/suites/backend_run.h"
#include "conformance/suites/backend_suite.h"
#include "conformance/suites/probe.h"

namespace bdlm {
namespace {

struct ProbeCase {
  LayoutCase layout;
  AttentionShape shape;
  ProbeWindows windows;

  std::string id() const {
    CaseId id = layout.id();
    id.heads(shape.q_heads, shape.kv_heads).number("d", shape.head_dim).word("data", "probe");
    return id.str();
  }
};

CaseResult judge(const ProbeCase& c, const Backend& backend) {
  const Sequence& sequence = c.layout.shape.sequence;
  CaseResult result;
  int64_t pairs = 0;
  int64_t faults = 0;
  int64_t unseen = 0;
  double residual = 0;
  for (const std::vector<RankPlan>& group : groups_of(c.layout)) {
    std::vector<RankPlan> plans = group;
    const ProbeFaults found = probe(backend, sequence, c.layout.rule, plans, c.shape, c.windows);
    pairs += found.pairs;
    faults += found.count;
    unseen += found.unseen;
    residual = std::max(residual, found.residual);
    if (found.count > 0 && result.verdict == Verdict::pass) {
      result.verdict = Verdict::fail;
      result.reason = Reason::coverage;
      result.detail = diagnose(sequence, c.layout.rule, plans, c.shape, found);
    }
  }
  result.figures = {{"pairs", pairs}, {"faults", faults}, {"residual", residual}};
  if (unseen > 0 && result.verdict == Verdict::pass) {
    result.verdict = Verdict::mistrusted;
    result.detail = join(unseen, " pairs were too near their row's mean under every payload");
  }
  return result;
}

bool takes(const Selection& selection, Scheme scheme, int ranks) {
  return chosen(selection.schemes, scheme) && chosen(selection.ranks, ranks) &&
         (scheme == Scheme::monolithic) == (ranks == 1);
}

}  // namespace

std::vector<BackendCase> probe_cases(const Selection& selection) {
  const bool quick = selection.level == Level::quick;
  std::vector<ProbeCase> cases;
  const LayerRule full{CleanRule::block_causal, 0};
  for (const int ranks : {1, 2, 4}) {
    for (const Scheme scheme : {Scheme::monolithic, Scheme::cp, Scheme::bp, Scheme::csbp}) {
      if (!takes(selection, scheme, ranks)) {
        continue;
      }
      const auto add = [&](const Shape& shape, const LayerRule& rule, const AttentionShape& heads,
                           const ProbeWindows& windows = {}) {
        cases.push_back({{shape, rule, scheme, ranks, BlockAssignment::dual_end}, heads, windows});
      };
      // Every head, on blocks that ranks share unevenly; a window; documents and padding.
      const Shape base{Sequence::uniform(4 * (2 * ranks + 1) - 1, 4), 4, "", ""};
      // All heads: on one rank, and where gathers, states and reductions take part.
      const bool every_head = !quick || ranks == 1 || (ranks == 2 && scheme == Scheme::csbp);
      add(base, full, every_head ? AttentionShape{6, 3, 64} : AttentionShape{2, 1, 64});
      add(base, {CleanRule::token_causal, 6}, {2, 1, 64});
      if (!quick || ranks < 4) {
        add(shape_of_documents(23, 3, {5, 11, 4}), {CleanRule::token_causal, 0}, {2, 2, 64});
      }
      if (!quick || (ranks == 2 && scheme == Scheme::csbp)) {
        add(base, {CleanRule::block_causal, 5}, {4, 1, 64});
        add(shape_of_documents(23, 3, {5, 11, 4}), full, {3, 1, 64});
      }
      // A long sequence through some windows: its ends, the middle, the edges of chunks.
      if (scheme == Scheme::monolithic || (scheme == Scheme::csbp && (!quick || ranks == 2))) {
        const int64_t length = quick ? 390 : 4096;
        const int64_t block = quick ? 30 : 256;
        const Shape shape{Sequence::uniform(length, block), block, "", ""};
        ProbeWindows windows;
        for (const int64_t at : {length / 2 - 32, 2 * length - 64}) {
          windows.starts.push_back(at);
        }
        if (!quick) {
          windows.starts.insert(windows.starts.end(), {0, length - 64});
        }
        add(shape, full, {1, 1, 64}, windows);
        if (!quick && ranks == 1) {
          add(shape, {CleanRule::token_causal, 1024}, {2, 1, 64}, windows);
        }
      }
    }
  }
  if (!quick) {
    for (const LayoutCase& layout : selected_layouts(selection)) {
      cases.push_back({layout, {1, 1, 128}, {}});
    }
  }
  std::vector<BackendCase> out;
  std::set<std::string> ids;
  for (const ProbeCase& c : cases) {
    if (ids.insert(c.id()).second) {
      out.push_back({c.id(), "T1", c.layout.scheme, c.layout.ranks,
                     [c](const Backend& backend) { return judge(c, backend); }});
    }
  }
  return out;
}

}  // namespace bdlm
