#include <algorithm>

#include "conformance/golden/golden_case.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

using Flags = std::vector<std::string>;

constexpr LayerRule block_causal(int64_t window = 0) {
  return {CleanRule::block_causal, window};
}
constexpr LayerRule token_causal(int64_t window = 0) {
  return {CleanRule::token_causal, window};
}

Shape uniform(int64_t length, int64_t block_size) {
  return {Sequence::uniform(length, block_size), block_size, "", ""};
}

/// A contract's name as a word of an id.
std::string word_of(std::string contract) {
  std::replace(contract.begin(), contract.end(), '-', '.');
  return contract;
}

class List {
 public:
  /// P = 1 is the monolithic scheme. Where several query heads share each of several KV heads, the
  /// vector tells maps of heads apart.
  void attention(const Shape& shape, const LayerRule& rule, Scheme scheme, int ranks,
                 const AttentionShape& heads, const std::string& contract, DataKind data,
                 Flags flags, bool stored = true) {
    if (heads.q_heads > heads.kv_heads && heads.kv_heads > 1) {
      flags.push_back("gqa_map");
    }
    const LayoutCase layout{shape, rule, scheme, ranks, BlockAssignment::dual_end};
    CaseId id = layout.id();
    id.heads(heads.q_heads, heads.kv_heads).number("d", heads.head_dim);
    add(id.word("dtype", word_of(contract)).word("data", name(data)), contract, flags, stored,
        AttentionVector{layout, heads, data});
  }

  void merge(const MergeVector& v, const std::string& contract, const Flags& flags) {
    CaseId id("merge");
    id.number("parts", v.parts).number("rows", v.rows).heads(v.heads, v.heads);
    id.number("d", v.head_dim).word("dtype", word_of(contract)).word("data", name(v.kind));
    add(id, contract, flags, true, v);
  }

  void cross_entropy(const CrossEntropyVector& v, const std::string& contract, const Flags& flags,
                     bool stored = true) {
    CaseId id("cross_entropy");
    id.number("rows", v.rows).number("hidden", v.hidden).number("vocab", v.vocab);
    id.word("dtype", word_of(contract));
    if (v.softcap > 0) {
      id.word("cap", join("cap", v.softcap));
    }
    if (v.excluded >= 0) {
      id.word("excluded", join("excluded", v.excluded));
    }
    if (v.factor != 1) {
      id.word("data", join("times", v.factor));
    }
    add(id, contract, flags, stored, v);
  }

  void step(const std::string& word, const std::string& contract, const Shape& shape,
            const LayerRule& rule, const Flags& flags, void (*edit)(StepSettings&)) {
    StepVector v;
    v.word = word;
    StepSettings& s = v.settings;
    s.sequence = shape.sequence;
    s.config = two_layers(rule, {.hidden = 12, .head_dim = 4, .mlp = 16, .vocab = 23});
    s.mask_token = 22;
    edit(s);
    CaseId id("step");
    id.number("L", shape.sequence.length()).number("M", shape.block_size);
    if (rule.window > 0) {
      id.number("w", rule.window);
    }
    if (!shape.documents.empty()) {
      id.word("docs", "docs" + shape.documents);
    }
    id.word("clean", rule.clean == CleanRule::block_causal ? "blockcausal" : "tokencausal");
    add(id.word("dtype", word_of(contract)).word("step", word), contract, flags, true, v);
  }

  std::vector<GoldenCase> take() { return std::move(cases_); }

 private:
  template <class What>
  void add(CaseId& id, const std::string& contract, const Flags& flags, bool stored, What what) {
    GoldenCase c;
    c.seed = 1;
    c.id = id.number("s", static_cast<int64_t>(c.seed)).str();
    c.contract = contract;
    c.flags = flags;
    c.stored = stored;
    c.what = std::move(what);
    cases_.push_back(std::move(c));
  }

  std::vector<GoldenCase> cases_;
};

void add_attention(List& list) {
  constexpr Scheme one = Scheme::monolithic;
  constexpr Scheme csbp = Scheme::csbp;
  constexpr Scheme cp = Scheme::cp;
  constexpr DataKind gauss = DataKind::gauss;
  // Masks.
  list.attention(
      uniform(32, 8), block_causal(), one, 1, {4, 2, 16}, "bf16", gauss,
      {"plain", "block_mask", "empty_row", "scale_factor", "cotangent", "low_precision"});
  list.attention(uniform(32, 8), token_causal(), one, 1, {2, 2, 16}, "bf16", gauss,
                 {"block_mask", "clean_rule", "empty_row"});
  list.attention(uniform(24, 1), block_causal(), one, 1, {6, 2, 16}, "bf16", gauss,
                 {"blocks_of_one", "odd_group"});
  list.attention(uniform(33, 5), token_causal(6), one, 1, {4, 1, 16}, "bf16", gauss,
                 {"window_bound"});
  list.attention(uniform(20, 4), token_causal(1), one, 1, {4, 2, 16}, "bf16", gauss,
                 {"window_one", "window_bound", "window_below_block"});
  list.attention(uniform(32, 8), block_causal(4), one, 1, {4, 2, 16}, "bf16", gauss,
                 {"window_bound", "window_below_block"});
  list.attention(uniform(24, 4), token_causal(64), one, 1, {2, 1, 16}, "bf16", gauss,
                 {"window_beyond"});
  list.attention(shape_of_documents(21, 2, {5, 11}), token_causal(), one, 1, {4, 2, 16}, "bf16",
                 gauss, {"documents", "padding", "empty_row"});
  list.attention(shape_of_documents(16, 4, {1, 1, 1, 13}), block_causal(), one, 1, {4, 2, 16},
                 "bf16", gauss, {"documents", "one_token_document", "empty_row"});
  list.attention(shape_of_documents(19, 2, {4, 12}), token_causal(3), one, 1, {4, 2, 16}, "bf16",
                 gauss, {"documents", "padding", "window_bound"});
  list.attention(uniform(11, 11), block_causal(), cp, 2, {4, 2, 16}, "bf16", gauss,
                 {"uneven_shards", "empty_row"});
  // Heads and channels.
  list.attention(uniform(24, 4), block_causal(), one, 1, {6, 3, 24}, "bf16", gauss,
                 {"head_dim", "scale_factor"});
  list.attention(uniform(12, 3), block_causal(), one, 1, {16, 1, 16}, "bf16", gauss, {"reduction"});
  list.attention(uniform(15, 3), token_causal(), one, 1, {2, 1, 128}, "bf16", gauss,
                 {"head_dim", "low_precision"});
  list.attention(uniform(16, 4), block_causal(), one, 1, {3, 3, 64}, "fp32", gauss,
                 {"low_precision"});
  // Decompositions: several parts a row, gradients of several ranks.
  list.attention(uniform(32, 4), block_causal(), csbp, 2, {4, 2, 16}, "bf16", gauss,
                 {"merge", "reduction", "delta"});
  list.attention(uniform(27, 3), block_causal(), csbp, 4, {4, 2, 16}, "bf16-fp32-reduce", gauss,
                 {"merge", "reduction", "uneven_shards", "delta"});
  list.attention(uniform(36, 4), token_causal(7), csbp, 4, {4, 2, 16}, "bf16-fp32-reduce", gauss,
                 {"halo", "window_bound", "merge"});
  list.attention(uniform(33, 3), block_causal(5), csbp, 3, {4, 2, 16}, "bf16", gauss,
                 {"halo", "window_bound", "uneven_shards"});
  list.attention(uniform(30, 3), token_causal(), cp, 4, {4, 2, 16}, "bf16", gauss,
                 {"reduction", "uneven_shards"});
  list.attention(uniform(48, 3), block_causal(), csbp, 8, {2, 1, 16}, "bf16-fp32-reduce", gauss,
                 {"merge", "reduction"});
  list.attention(uniform(27, 3), block_causal(), csbp, 4, {4, 2, 16}, "fp32", gauss,
                 {"merge", "reduction", "delta", "low_precision"});
  list.attention(uniform(24, 3), token_causal(), csbp, 2, {4, 2, 16}, "f64", gauss,
                 {"merge", "delta"});
  // Data at which implementations break.
  list.attention(uniform(32, 8), block_causal(), one, 1, {4, 2, 16}, "bf16", DataKind::scores_80,
                 {"large_scores"});
  list.attention(uniform(24, 4), token_causal(), one, 1, {2, 1, 16}, "fp32", DataKind::scores_1e4,
                 {"large_scores", "one_key_wins"});
  list.attention(uniform(24, 3), block_causal(), csbp, 2, {4, 2, 16}, "bf16", DataKind::local_above,
                 {"lse_apart", "merge"});
  list.attention(uniform(24, 3), block_causal(), csbp, 2, {4, 2, 16}, "bf16", DataKind::local_below,
                 {"lse_apart", "merge"});
  list.attention(uniform(24, 4), block_causal(), one, 1, {2, 1, 16}, "bf16", DataKind::equal_maxima,
                 {"equal_maxima"});
  list.attention(uniform(24, 4), block_causal(), one, 1, {2, 1, 16}, "bf16", DataKind::cancelling,
                 {"cancelling"});
  // Too large to be stored.
  list.attention(uniform(192, 16), block_causal(), one, 1, {2, 1, 64}, "bf16", gauss,
                 {"many_keys", "plain"}, false);
  list.attention(uniform(96, 8), token_causal(20), csbp, 4, {2, 1, 256}, "bf16", gauss,
                 {"head_dim", "halo", "window_bound"}, false);
  list.attention(uniform(48, 8), block_causal(), one, 1, {2, 1, 512}, "bf16", gauss, {"head_dim"},
                 false);
}

void add_merges(List& list) {
  list.merge({MergeKind::gauss, 2, 16, 4, 16}, "fp32", {"merge"});
  list.merge({MergeKind::gauss, 2, 16, 4, 16}, "bf16", {"merge", "low_precision"});
  list.merge({MergeKind::apart, 2, 16, 2, 16}, "fp32", {"lse_apart", "merge_overflow"});
  list.merge({MergeKind::edges, 2, 18, 1, 4}, "fp32",
             {"merge_empty", "merge_overflow", "merge_nan", "merge_small"});
  list.merge({MergeKind::gauss, 8, 4, 2, 8}, "fp32", {"merge_chain"});
  list.merge({MergeKind::gauss, 64, 4, 1, 8}, "fp32", {"merge_chain"});
  list.merge({MergeKind::gauss, 512, 4, 1, 8}, "fp32", {"merge_chain"});
  list.merge({MergeKind::tiny, 4097, 1, 1, 4}, "fp32", {"merge_small", "merge_chain"});
}

void add_cross_entropy(List& list) {
  list.cross_entropy({10, 16, 64}, "bf16", {"plain", "ignored_labels", "row_weights"});
  list.cross_entropy({10, 16, 64}, "fp32", {"ignored_labels", "row_weights", "low_precision"});
  list.cross_entropy({17, 24, 67, 0, -1, 0.75}, "bf16", {"odd_vocab", "cotangent"});
  list.cross_entropy({12, 16, 48, 0, 47}, "bf16", {"excluded_logit"});
  list.cross_entropy({12, 16, 48, 5, -1, 1, 2}, "bf16", {"softcap"});
  list.cross_entropy({12, 16, 48, 5, 0, -1.5, 2}, "fp32",
                     {"softcap", "excluded_logit", "cotangent"});
  list.cross_entropy({9, 32, 40, 0, -1, 1, 32}, "fp32", {"large_scores"});
  list.cross_entropy({64, 64, 1024}, "bf16", {"plain", "many_keys"}, false);
}

void add_steps(List& list) {
  const Shape one = uniform(23, 3);
  const Shape documents = shape_of_documents(21, 2, {5, 11});
  list.step("masked", "fp32", one, block_causal(),
            {"plain", "block_mask", "denominator", "row_weights", "reduction"},
            [](StepSettings&) {});
  list.step("masked", "f64", one, block_causal(), {"plain", "denominator"}, [](StepSettings&) {});
  list.step("window", "fp32", one, token_causal(4), {"window_bound", "halo", "reduction"},
            [](StepSettings& s) { s.supervision = Supervision::most; });
  list.step("documents", "fp32", documents, token_causal(3),
            {"documents", "padding", "positions", "denominator"}, [](StepSettings&) {});
  list.step("views", "fp32", documents, block_causal(),
            {"complementary", "shifted_labels", "denominator"}, [](StepSettings& s) {
              s.objective = ObjectiveKind::complementary_views;
              s.supervision = Supervision::most;
            });
  list.step("cleanloss", "fp32", one, token_causal(), {"clean_loss", "shifted_labels"},
            [](StepSettings& s) { s.clean_loss = 0.5; });
  list.step("options", "fp32", one, block_causal(),
            {"tied_head", "qk_norm", "softcap", "excluded_logit"}, [](StepSettings& s) {
              s.config.qk_norm = true;
              s.config.tied = true;
              s.config.softcap = 5;
              s.config.excluded_logit = s.mask_token;
              s.supervision = Supervision::most;
            });
  list.step("firsthalf", "fp32", one, block_causal(), {"few_supervised", "denominator"},
            [](StepSettings& s) { s.supervision = Supervision::first_half; });
}

}  // namespace

const char* name(MergeKind kind) {
  switch (kind) {
    case MergeKind::gauss:
      return "gauss";
    case MergeKind::apart:
      return "apart";
    case MergeKind::edges:
      return "edges";
    case MergeKind::tiny:
      return "tiny";
  }
  return "?";
}

const char* GoldenCase::family() const {
  constexpr const char* names[] = {"attention", "merge", "cross_entropy", "step"};
  return names[what.index()];
}

const std::vector<GoldenCase>& golden_cases() {
  static const std::vector<GoldenCase> cases = [] {
    List list;
    add_attention(list);
    add_merges(list);
    add_cross_entropy(list);
    add_steps(list);
    return list.take();
  }();
  return cases;
}

const GoldenCase& find_golden_case(std::string_view id) {
  for (const GoldenCase& c : golden_cases()) {
    if (c.id == id) {
      return c;
    }
  }
  throw InputError(join("there is no golden vector '", printable(id),
                        "'; bdlm golden list shows those that there are"));
}

std::vector<GoldenCase> select_golden_cases(const std::string& glob, bool stored_only) {
  std::vector<GoldenCase> out;
  for (const GoldenCase& c : golden_cases()) {
    if (glob_match(glob, c.id) && (c.stored || !stored_only)) {
      out.push_back(c);
    }
  }
  require(!out.empty(), "no golden vector matches '", printable(glob),
          "'; bdlm golden list shows those that there are");
  return out;
}

}  // namespace bdlm
