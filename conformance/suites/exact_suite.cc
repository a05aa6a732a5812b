// T2: are monolithic, CP, BP and CSBP one function? In rational arithmetic, by `==`.
//
// The reference's own attention, merge and rank programs run over exact rationals. exp becomes a
// positive whole weight of each score, and a log-sum-exp carries the sum of weights itself, so that
// every quotient of exponentials is a rational number and no scheme may differ from another in any
// digit.

#include "conformance/suites/attention_data.h"
#include "conformance/suites/attention_problem.h"
#include "conformance/suites/attention_traffic.h"
#include "conformance/suites/suite.h"
#include "reference/math/exact.h"
#include "reference/schedule/plan_builder.h"

namespace bdlm {
namespace {

// Two KV heads of two query heads each: fewer of either would hide a wrong map of heads.
constexpr AttentionShape shape{4, 2, 2};
constexpr uint64_t seed = 1;

/// Counts values that differ and values that are not zero.
struct Equality {
  int64_t differing = 0;
  int64_t nonzero = 0;
  int64_t compared = 0;
  /// Where the first difference is.
  std::string where;

  /// Element `i` of a row of so many heads and channels.
  void compare(const Exact& a, const Exact& b, Stream stream, int64_t row, int64_t i,
               int64_t channels) {
    ++compared;
    nonzero += b == Exact(0) ? 0 : 1;
    if (a == b) {
      return;
    }
    if (differing++ == 0) {
      where = join(name(stream), " row ", row, ", head ", i / channels, ", channel ", i % channels);
    }
  }
};

}  // namespace

CaseResult judge_exact(const LayoutCase& c, const Subject& subject) {
  const Sequence& sequence = c.shape.sequence;
  const std::vector<RankPlan> plans = plans_of(subject, {sequence, c.rule, c.ownership()});
  AttentionProblem<Exact> problem =
      attention_data<Exact>(shape, sequence.length(), DataKind::integers, seed);
  drop_unheld_cotangents(problem, plans);
  const AttentionOutcome<Exact> one = run_attention(
      build_plans(sequence, divide(sequence, Scheme::monolithic, 1), c.rule), problem);
  const AttentionOutcome<Exact> many = run_attention(plans, problem, {}, subject.engine_exact);

  CaseResult result;
  const int64_t width = shape.q_heads * shape.head_dim;
  const auto add = [&](const char* tensor, const Equality& e) {
    TensorResult t{tensor, Verdict::pass, Reason::none, {}, ""};
    t.figures = {{"compared", e.compared}, {"differing", e.differing}};
    if (e.differing > 0) {
      t.verdict = Verdict::fail;
      t.reason = Reason::bitwise;
      t.detail = join(e.differing, " of ", e.compared,
                      " rationals differ from the monolithic ones, first at ", e.where);
    }
    result.add(std::move(t));
  };
  Equality o;
  Equality lse;
  for (const RankOutput<Exact>& rank : many.ranks) {
    for (size_t s = 0; s < rank.rows.segments().size(); ++s) {
      const Segment& segment = rank.rows.segments()[s];
      for (int64_t row = segment.rows.begin; row < segment.rows.end; ++row) {
        const int64_t mine = rank.rows.offset(s) + row - segment.rows.begin;
        const int64_t whole = one.ranks[0].rows.find(segment.stream, row);
        for (int64_t i = 0; i < width; ++i) {
          o.compare(rank.o[mine * width + i], one.ranks[0].o[whole * width + i], segment.stream,
                    row, i, shape.head_dim);
        }
        for (int64_t h = 0; h < shape.q_heads; ++h) {
          lse.compare(rank.lse[mine * shape.q_heads + h],
                      one.ranks[0].lse[whole * shape.q_heads + h], segment.stream, row, h, 1);
        }
      }
    }
  }
  add("O", o);
  add("l", lse);
  const auto gradients = [&](const char* tensor, const ByStream<Exact>& a, const ByStream<Exact>& b,
                             int64_t heads) {
    const int64_t row_width = heads * shape.head_dim;
    Equality e;
    for (int s = 0; s < 2; ++s) {
      for (size_t i = 0; i < a[s].size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        e.compare(a[s][i], b[s][i], static_cast<Stream>(s), at / row_width, at % row_width,
                  shape.head_dim);
      }
    }
    add(tensor, e);
    return e.nonzero;
  };
  const int64_t nonzero = gradients("dQ", many.dq, one.dq, shape.q_heads) +
                          gradients("dK", many.dk, one.dk, shape.kv_heads) +
                          gradients("dV", many.dv, one.dv, shape.kv_heads);
  if (nonzero == 0 && result.verdict == Verdict::pass) {
    result.verdict = Verdict::mistrusted;
    result.detail = "every gradient is zero";
  }
  const std::string bytes =
      compare_bytes(ledger_bytes(c, shape, element_type<Exact>()->bytes), many.logs);
  if (!bytes.empty()) {
    result.verdict = Verdict::fail;
    result.reason = Reason::coverage;
    result.detail = bytes;
  }
  return result;
}

std::vector<SuiteCase> exact_cases(const Selection& selection) {
  std::vector<SuiteCase> out;
  for (const LayoutCase& c : selected_layouts(selection)) {
    CaseId id = c.id();
    id.heads(shape.q_heads, shape.kv_heads).number("d", shape.head_dim).word("dtype", "exact");
    id.word("data", name(DataKind::integers)).number("s", seed);
    out.push_back({id.str(), "T2", c.scheme, c.ranks,
                   [c](const Subject& subject) { return judge_exact(c, subject); }});
  }
  return out;
}

}  // namespace bdlm
