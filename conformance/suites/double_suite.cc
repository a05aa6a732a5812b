// T3: does the distributed code in double agree with monolithic? One attention layer.

#include "conformance/suites/attention_data.h"
#include "conformance/suites/attention_problem.h"
#include "conformance/suites/attention_traffic.h"
#include "conformance/suites/double_bound.h"
#include "conformance/suites/suite.h"
#include "reference/schedule/plan_builder.h"

namespace bdlm {
namespace {

/// A layout with what fills it.
struct DoubleCase {
  LayoutCase layout;
  AttentionShape shape;
  DataKind data = DataKind::gauss;
  uint64_t seed = 1;

  std::string id() const {
    CaseId id = layout.id();
    id.heads(shape.q_heads, shape.kv_heads).number("d", shape.head_dim).word("dtype", "f64");
    id.word("data", name(data)).number("s", static_cast<int64_t>(seed));
    return id.str();
  }
};

/// The worst ratio of a difference to its bound, and where it is.
struct Worst {
  double ratio = 0;
  double difference = 0;
  bool nonfinite = false;
  double largest = 0;
  std::string where;

  template <class Where>
  void compare(double a, double b, double bound, const Where& describe) {
    if (!std::isfinite(a) || !std::isfinite(b)) {
      // An empty row's LSE is -inf on both sides.
      if (!(std::isinf(a) && a == b && bound > 0)) {
        nonfinite = true;
        where = describe();
      }
      return;
    }
    largest = std::max(largest, std::abs(b));
    const double d = std::abs(a - b);
    // Where the bound is 0 nothing is summed: the value is exactly 0.
    const double r = d == 0 ? 0 : (bound > 0 ? d / bound : std::numeric_limits<double>::infinity());
    if (r > ratio) {
      ratio = r;
      difference = d;
      where = describe();
    }
  }

  TensorResult result(const char* tensor) const {
    TensorResult t{tensor, Verdict::pass, Reason::none, {}, ""};
    t.figures = {{"err_over_bound", ratio}, {"max_difference", difference}};
    if (nonfinite) {
      t.verdict = Verdict::fail;
      t.reason = Reason::nonfinite;
      t.detail = "a value is not finite at " + where;
    } else if (ratio > 1) {
      t.verdict = Verdict::fail;
      t.reason = Reason::bound;
      t.detail = join("off by ", difference, ", ", ratio, " times the bound, at ", where);
    }
    return t;
  }
};

std::string place(Stream stream, int64_t row, int64_t head, int64_t channel) {
  return join(name(stream), " row ", row, ", head ", head, ", channel ", channel);
}

CaseResult judge(const DoubleCase& c, const Subject& subject) {
  const Sequence& sequence = c.layout.shape.sequence;
  const AttentionShape& shape = c.shape;
  const std::vector<RankPlan> plans =
      plans_of(subject, {sequence, c.layout.rule, c.layout.ownership()});
  AttentionProblem<double> problem =
      attention_data<double>(shape, sequence.length(), c.data, c.seed);
  drop_unheld_cotangents(problem, plans);
  const DoubleBound bound = double_bound(sequence, c.layout.rule, problem);
  const AttentionOutcome<double> one = run_attention(
      build_plans(sequence, divide(sequence, Scheme::monolithic, 1), c.layout.rule), problem);
  const AttentionOutcome<double> many = run_attention(plans, problem, {}, subject.engine_f64);

  Worst o;
  Worst lse;
  const int64_t d = shape.head_dim;
  const int64_t heads = shape.q_heads;
  for (const RankOutput<double>& rank : many.ranks) {
    for (size_t s = 0; s < rank.rows.segments().size(); ++s) {
      const Segment& segment = rank.rows.segments()[s];
      const int stream = static_cast<int>(segment.stream);
      for (int64_t row = segment.rows.begin; row < segment.rows.end; ++row) {
        const int64_t mine = rank.rows.offset(s) + row - segment.rows.begin;
        const int64_t whole = one.ranks[0].rows.find(segment.stream, row);
        for (int64_t h = 0; h < heads; ++h) {
          lse.compare(rank.lse[mine * heads + h], one.ranks[0].lse[whole * heads + h],
                      bound.lse[stream][row * heads + h],
                      [&] { return place(segment.stream, row, h, 0); });
          for (int64_t i = 0; i < d; ++i) {
            o.compare(rank.o[(mine * heads + h) * d + i],
                      one.ranks[0].o[(whole * heads + h) * d + i],
                      bound.o[stream][(row * heads + h) * d + i],
                      [&] { return place(segment.stream, row, h, i); });
          }
        }
      }
    }
  }
  CaseResult result;
  result.add(o.result("O"));
  result.add(lse.result("LSE"));
  double largest = 0;
  const auto gradients = [&](const char* tensor, const ByStream<double>& a,
                             const ByStream<double>& b, const ByStream<double>& limit,
                             int64_t row_heads) {
    Worst worst;
    for (int s = 0; s < 2; ++s) {
      for (size_t i = 0; i < a[s].size(); ++i) {
        worst.compare(a[s][i], b[s][i], limit[s][i], [&] {
          const auto at = static_cast<int64_t>(i);
          return place(static_cast<Stream>(s), at / (row_heads * d), at / d % row_heads, at % d);
        });
      }
    }
    result.add(worst.result(tensor));
    largest = std::max(largest, worst.largest);
  };
  gradients("dQ", many.dq, one.dq, bound.dq, heads);
  gradients("dK", many.dk, one.dk, bound.dk, shape.kv_heads);
  gradients("dV", many.dv, one.dv, bound.dv, shape.kv_heads);
  if (largest == 0 && result.verdict == Verdict::pass) {
    result.verdict = Verdict::mistrusted;
    result.detail = "every gradient is zero";
  }
  const std::string bytes = compare_bytes(ledger_bytes(c.layout, shape, sizeof(double)), many.logs);
  if (!bytes.empty()) {
    result.verdict = Verdict::fail;
    result.reason = Reason::coverage;
    result.detail = bytes;
  }
  return result;
}

}  // namespace

std::vector<SuiteCase> double_cases(const Selection& selection) {
  std::vector<DoubleCase> cases;
  constexpr AttentionShape small{4, 2, 4};
  for (const LayoutCase& layout : selected_layouts(selection)) {
    cases.push_back({layout, small, DataKind::gauss, 1});
    if (selection.level == Level::full) {
      cases.push_back({layout, small, DataKind::gauss, 2});
    }
  }
  // One shape that every scheme shares unevenly, with the data and the heads that find faults.
  for (const int ranks : selection.ranks.empty() ? rank_counts(selection.level) : selection.ranks) {
    const int64_t blocks = 2 * ranks + 1;
    const Shape base{Sequence::uniform(5 * blocks - 2, 5), 5, "", ""};
    for (const Scheme scheme : {Scheme::cp, Scheme::bp, Scheme::csbp}) {
      for (const LayerRule& rule :
           {LayerRule{CleanRule::block_causal, 0}, LayerRule{CleanRule::token_causal, 7}}) {
        const LayoutCase layout{base, rule, scheme, ranks, BlockAssignment::dual_end};
        for (const DataKind kind :
             {DataKind::scores_80, DataKind::scores_1e4, DataKind::local_above,
              DataKind::local_below, DataKind::equal_maxima, DataKind::cancelling}) {
          cases.push_back({layout, small, kind, 1});
        }
        if (selection.level == Level::quick && rule.window > 0) {
          continue;
        }
        for (const AttentionShape& heads :
             {AttentionShape{2, 2, 3}, AttentionShape{3, 1, 5}, AttentionShape{8, 2, 64},
              AttentionShape{16, 1, 16}, AttentionShape{12, 2, 96}, AttentionShape{2, 1, 128},
              AttentionShape{2, 1, 256}, AttentionShape{1, 1, 512}}) {
          cases.push_back({layout, heads, DataKind::gauss, 1});
        }
      }
    }
  }
  std::vector<SuiteCase> out;
  for (const DoubleCase& c : cases) {
    out.push_back({c.id(), "T3", c.layout.scheme, c.layout.ranks,
                   [c](const Subject& subject) { return judge(c, subject); }});
  }
  return out;
}

}  // namespace bdlm
