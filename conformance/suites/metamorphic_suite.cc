// T5: relations between results that hold to the last bit, whatever a backend rounds.
//
//   dO 2^k          dQ, dK, dV times 2^k
//   V 2^k           O, dQ, dK times 2^k; z and dV stay
//   2 Q, scale / 2  O, z, dK, dV stay; dQ halves
//   hidden keys     what a row may not see changes: its O, z and dQ keep their bits
//   hidden rows     rows that may not see a key change: its dK and dV keep their bits
//                   (MARGINAL where NaN or infinities change them within the bounds)
//   documents       in another order: the same within T4

#include <cmath>
#include <functional>
#include <set>

#include "conformance/judge/judge_attention.h"
#include "conformance/suites/backend_run.h"
#include "conformance/suites/backend_suite.h"
#include "conformance/suites/same_bits.h"
#include "reference/base/special_values.h"
#include "reference/layout/visibility.h"

namespace bdlm {
namespace {

struct Relation {
  LayoutCase layout;
  AttentionShape shape;
  std::string word;
  std::function<CaseResult(const Relation&, const Backend&)> judge;

  std::string id() const {
    CaseId id = layout.id();
    id.heads(shape.q_heads, shape.kv_heads).number("d", shape.head_dim).word("data", word);
    return id.str();
  }
};

AttentionProblem<double> data_of(const Relation& r, const Backend& backend) {
  return backend_data(r.shape, r.layout.shape.sequence.length(), DataKind::gauss, 5,
                      backend.contract());
}

void scale_by(ByStream<double>& values, double factor) {
  for (auto& stream : values) {
    for (double& x : stream) {
      x *= factor;
    }
  }
}

/// The results of all groups of plans.
std::vector<AttentionOutputs> outputs(const Relation& r, const Backend& backend,
                                      const AttentionProblem<double>& problem) {
  std::vector<AttentionOutputs> out;
  for (const std::vector<RankPlan>& group : groups_of(r.layout)) {
    out.push_back(
        run_on_backend(backend, r.layout.shape.sequence, r.layout.rule, group, problem).outputs);
  }
  return out;
}

/// `edit` changes the inputs, `expect` what was computed from the old ones into what must come out.
CaseResult relation(const Relation& r, const Backend& backend, const std::string& what,
                    const std::function<void(AttentionProblem<double>&)>& edit,
                    const std::function<void(AttentionOutputs&)>& expect) {
  AttentionProblem<double> problem = data_of(r, backend);
  std::vector<AttentionOutputs> before = outputs(r, backend, problem);
  edit(problem);
  const std::vector<AttentionOutputs> after = outputs(r, backend, problem);
  for (size_t g = 0; g < before.size(); ++g) {
    expect(before[g]);
    const std::string differs = difference(named(before[g]), named(after[g]));
    if (!differs.empty()) {
      return bitwise_result(what, differs);
    }
  }
  return {};
}

CaseResult scaled_cotangent(const Relation& r, const Backend& backend, double factor) {
  return relation(
      r, backend, join("dO times ", factor),
      [=](AttentionProblem<double>& p) { scale_by(p.d_o, factor); },
      [=](AttentionOutputs& out) {
        scale_by(out.dq, factor);
        scale_by(out.dk, factor);
        scale_by(out.dv, factor);
      });
}

CaseResult scaled_values(const Relation& r, const Backend& backend, double factor) {
  return relation(
      r, backend, join("V times ", factor),
      [=](AttentionProblem<double>& p) { scale_by(p.v, factor); },
      [=](AttentionOutputs& out) {
        scale_by(out.o, factor);
        scale_by(out.dq, factor);
        scale_by(out.dk, factor);
      });
}

CaseResult scaled_queries(const Relation& r, const Backend& backend) {
  return relation(
      r, backend, "Q times 2 with half the scale",
      [](AttentionProblem<double>& p) {
        scale_by(p.q, 2);
        p.scale /= 2;
      },
      [](AttentionOutputs& out) { scale_by(out.dq, 0.5); });
}

/// Rows in the middle and at the ends of the last two documents, of both streams.
std::vector<std::pair<Stream, int64_t>> places(const Sequence& sequence) {
  const std::vector<Interval>& documents = sequence.documents();
  std::set<int64_t> rows{sequence.length() / 2, documents.back().end - 1};
  if (documents.size() > 1) {
    rows.insert({documents.back().begin, documents[documents.size() - 2].end - 1});
  } else {
    rows.insert(0);
  }
  std::vector<std::pair<Stream, int64_t>> out;
  for (const int64_t row : rows) {
    if (!sequence.is_padding(row)) {
      out.emplace_back(Stream::clean, row);
      out.emplace_back(Stream::corrupted, row);
    }
  }
  return out;
}

void fill_row(ByStream<double>& values, Stream stream, int64_t row, int64_t width, double value) {
  auto at = values[static_cast<int>(stream)].begin() + row * width;
  std::fill(at, at + width, value);
}

/// One row of an output.
struct RowOf {
  OutputKind kind;
  Stream stream;
  int64_t row;
};

/// Rows that must keep their bits when what they may not see becomes `value`. NaN and infinities
/// may send a backend to other kernels, which round elsewhere: rows that are still within their
/// bounds are MARGINAL then.
class KeptRows {
 public:
  KeptRows(const Relation& r, const Backend& backend, const AttentionProblem<double>& problem,
           const char* hidden, double value)
      : r_(r),
        backend_(backend),
        problem_(problem),
        what_(join(hidden, " became ", value)),
        other_kernels_(!std::isfinite(value)) {}

  /// False where the case has failed.
  bool compare(size_t group, const RowOf& at, const AttentionOutputs& before,
               const AttentionOutputs& after) {
    const std::vector<double> now = row_of(at, after.*output_of(at.kind).got);
    const std::string row = join(name(at.kind), " of ", name(at.stream), " row ", at.row, " of ",
                                 r_.layout.shape.sequence.length());
    const std::string differs =
        difference({{row, row_of(at, before.*output_of(at.kind).got)}}, {{row, now}});
    if (differs.empty()) {
      return true;
    }
    if (other_kernels_ && within_bounds(group, at, now)) {
      if (result_.verdict == Verdict::pass) {
        result_ = bitwise_result(what_, differs + ", within the bound: other kernels?");
        result_.verdict = Verdict::marginal;
      }
      return true;
    }
    result_ = bitwise_result(what_, differs);
    return false;
  }

  const CaseResult& result() const { return result_; }

 private:
  std::vector<double> row_of(const RowOf& at, const ByStream<double>& tensor) const {
    const bool of_keys = at.kind == OutputKind::dk || at.kind == OutputKind::dv;
    const int64_t width = (of_keys ? r_.shape.kv_heads : r_.shape.q_heads) *
                          (at.kind == OutputKind::lse ? 1 : r_.shape.head_dim);
    const auto begin = tensor[static_cast<int>(at.stream)].begin() + at.row * width;
    return {begin, begin + width};
  }

  bool within_bounds(size_t group, const RowOf& at, const std::vector<double>& now) {
    if (expected_.empty()) {
      for (const std::vector<RankPlan>& plans : groups_of(r_.layout)) {
        const Decomposition parts = of_plans(r_.layout.shape.sequence, r_.layout.rule, plans);
        expected_.push_back(expected_attention(problem_, parts, backend_.contract()));
      }
    }
    const ExpectedTensor& expected = expected_[group].*output_of(at.kind).expected;
    const std::vector<double> right = row_of(at, expected.value);
    const std::vector<double> bound = row_of(at, expected.bound);
    for (size_t i = 0; i < now.size(); ++i) {
      // Equal infinities: the LSE of a row that sees nothing.
      if (now[i] != right[i] && !(std::abs(now[i] - right[i]) <= bound[i])) {
        return false;
      }
    }
    return true;
  }

  const Relation& r_;
  const Backend& backend_;
  const AttentionProblem<double>& problem_;
  std::string what_;
  bool other_kernels_;
  std::vector<ExpectedAttention> expected_;  // by group, made when needed
  CaseResult result_;
};

CaseResult hidden_keys(const Relation& r, const Backend& backend, double value) {
  const Sequence& sequence = r.layout.shape.sequence;
  const int64_t kv_width = r.shape.kv_heads * r.shape.head_dim;
  const AttentionProblem<double> problem = data_of(r, backend);
  const std::vector<AttentionOutputs> before = outputs(r, backend, problem);
  KeptRows kept(r, backend, problem, "keys that a row may not see", value);
  for (const auto& place : places(sequence)) {
    const Stream stream = place.first;
    const int64_t row = place.second;
    AttentionProblem<double> edited = problem;
    for (const Stream key_stream : {Stream::clean, Stream::corrupted}) {
      const Interval seen = visible(sequence, r.layout.rule, stream, row, key_stream);
      for (int64_t key = 0; key < sequence.length(); ++key) {
        if (!seen.contains(key)) {
          fill_row(edited.k, key_stream, key, kv_width, value);
          fill_row(edited.v, key_stream, key, kv_width, value);
        }
      }
    }
    const std::vector<AttentionOutputs> after = outputs(r, backend, edited);
    for (size_t g = 0; g < before.size(); ++g) {
      for (const OutputKind kind : {OutputKind::o, OutputKind::lse, OutputKind::dq}) {
        if (!kept.compare(g, {kind, stream, row}, before[g], after[g])) {
          return kept.result();
        }
      }
    }
  }
  return kept.result();
}

CaseResult hidden_rows(const Relation& r, const Backend& backend, double value) {
  const Sequence& sequence = r.layout.shape.sequence;
  const int64_t q_width = r.shape.q_heads * r.shape.head_dim;
  const AttentionProblem<double> problem = data_of(r, backend);
  const std::vector<AttentionOutputs> before = outputs(r, backend, problem);
  KeptRows kept(r, backend, problem, "rows that may not see a key", value);
  for (const auto& place : places(sequence)) {
    const Stream key_stream = place.first;
    const int64_t key = place.second;
    AttentionProblem<double> edited = problem;
    for (const Stream stream : {Stream::clean, Stream::corrupted}) {
      for (int64_t row = 0; row < sequence.length(); ++row) {
        if (!visible(sequence, r.layout.rule, stream, row, key_stream).contains(key)) {
          fill_row(edited.q, stream, row, q_width, value);
          fill_row(edited.d_o, stream, row, q_width, value);
        }
      }
    }
    const std::vector<AttentionOutputs> after = outputs(r, backend, edited);
    for (size_t g = 0; g < before.size(); ++g) {
      for (const OutputKind kind : {OutputKind::dk, OutputKind::dv}) {
        if (!kept.compare(g, {kind, key_stream, key}, before[g], after[g])) {
          return kept.result();
        }
      }
    }
  }
  return kept.result();
}

/// Values of `from`, whose documents lie in the order `order`, back to their places.
template <class Values>
Values moved(const Values& from, const std::vector<int64_t>& source, int64_t width) {
  Values out = from;
  for (int s = 0; s < 2; ++s) {
    for (size_t row = 0; row < source.size(); ++row) {
      std::copy_n(from[s].begin() + source[row] * width, width,
                  out[s].begin() + static_cast<int64_t>(row) * width);
    }
  }
  return out;
}

CaseResult permuted_documents(const Relation& r, const Backend& backend) {
  const Sequence& sequence = r.layout.shape.sequence;
  const AttentionProblem<double> problem = data_of(r, backend);
  // Last document first; to[row] is where a row goes, from[row] where it came from.
  std::vector<Interval> documents;
  std::vector<int64_t> from, to(sequence.length());
  for (size_t d = sequence.documents().size(); d-- > 0;) {
    const Interval old = sequence.documents()[d];
    const auto begin = static_cast<int64_t>(from.size());
    for (int64_t row = old.begin; row < old.end; ++row) {
      to[row] = static_cast<int64_t>(from.size());
      from.push_back(row);
    }
    documents.push_back({begin, static_cast<int64_t>(from.size())});
  }
  require<LogicError>(static_cast<int64_t>(from.size()) == sequence.length(),
                      "documents with padding are not permuted");
  const Sequence other = Sequence::uniform(sequence.length(), r.layout.shape.block_size, documents);
  const int64_t q_width = r.shape.q_heads * r.shape.head_dim;
  const int64_t kv_width = r.shape.kv_heads * r.shape.head_dim;
  AttentionProblem<double> edited = problem;
  edited.q = moved(problem.q, from, q_width);
  edited.d_o = moved(problem.d_o, from, q_width);
  edited.k = moved(problem.k, from, kv_width);
  edited.v = moved(problem.v, from, kv_width);
  LayoutCase layout = r.layout;
  layout.shape.sequence = other;
  const BackendOutcome run =
      run_on_backend(backend, other, layout.rule, groups_of(layout)[0], edited);
  AttentionOutputs back = run.outputs;
  back.o = moved(back.o, to, q_width);
  back.lse = moved(back.lse, to, r.shape.q_heads);
  back.dq = moved(back.dq, to, q_width);
  back.dk = moved(back.dk, to, kv_width);
  back.dv = moved(back.dv, to, kv_width);
  const Decomposition one = whole(sequence, layout.rule);
  CaseResult result;
  for (TensorResult& t : judge_attention(
           problem, one, expected_attention(problem, one, backend.contract()), back, true)) {
    result.add(std::move(t));
  }
  return result;
}

}  // namespace

std::vector<BackendCase> metamorphic_cases(const Selection& selection) {
  std::vector<Relation> all;
  const bool quick = selection.level == Level::quick;
  const std::vector<int> wanted =
      selection.ranks.empty() ? std::vector<int>{1, 2, 4} : selection.ranks;
  constexpr double large = 0x1p15;  // a number of every format
  for (const int ranks : wanted) {
    for (const Scheme scheme : {Scheme::monolithic, Scheme::cp, Scheme::bp, Scheme::csbp}) {
      const auto& schemes = selection.schemes;
      const bool chosen =
          schemes.empty() || std::find(schemes.begin(), schemes.end(), scheme) != schemes.end();
      if (!chosen || (scheme == Scheme::monolithic) != (ranks == 1)) {
        continue;
      }
      const Shape base{Sequence::uniform(8 * (2 * ranks + 1) - 3, 8), 8, "", ""};
      const Shape packed = shape_of_documents(40, 3, {5, 11, 21});
      const std::vector<std::pair<Shape, LayerRule>> layouts{
          {base, {CleanRule::block_causal, 0}},
          {base, {CleanRule::token_causal, 11}},
          {packed, {CleanRule::token_causal, 0}}};
      for (const auto& [shape, rule] : layouts) {
        const LayoutCase layout{shape, rule, scheme, ranks, BlockAssignment::dual_end};
        const auto add = [&](const std::string& word, auto judge) {
          all.push_back({layout, {4, 2, 24}, word, judge});
          if (!quick) {
            all.push_back({layout, {2, 1, 64}, word, judge});
            all.push_back({layout, {3, 3, 128}, word, judge});
          }
        };
        for (const double factor : {8.0, 0.25}) {
          const std::string word = factor > 1 ? "up" : "down";
          add("cotangent" + word,
              [=](const Relation& r, const Backend& b) { return scaled_cotangent(r, b, factor); });
          add("values" + word,
              [=](const Relation& r, const Backend& b) { return scaled_values(r, b, factor); });
        }
        add("queries", scaled_queries);
        for (const auto& [word, value] :
             {std::pair("nan", nan_value), {"inf", infinity}, {"large", large}}) {
          const bool few = ranks == 4 || (shape.documents.empty() && rule.window == 0) ||
                           (std::isinf(value) && scheme != Scheme::monolithic);
          if (quick && few) {
            continue;
          }
          add(join("hiddenkeys", word), [value = value](const Relation& r, const Backend& b) {
            return hidden_keys(r, b, value);
          });
          add(join("hiddenrows", word), [value = value](const Relation& r, const Backend& b) {
            return hidden_rows(r, b, value);
          });
        }
        if (scheme == Scheme::monolithic) {
          const Shape three = shape_of_documents(37, 3, {5, 11, 21});
          all.push_back({{three, rule, scheme, 1, BlockAssignment::dual_end},
                         {4, 2, 24},
                         "documents",
                         permuted_documents});
        }
      }
    }
  }
  std::vector<BackendCase> out;
  std::set<std::string> ids;
  for (const Relation& r : all) {
    if (ids.insert(r.id()).second) {
      out.push_back({r.id(), "T5", r.layout.scheme, r.layout.ranks,
                     [r](const Backend& backend) { return r.judge(r, backend); }});
    }
  }
  return out;
}

}  // namespace bdlm
