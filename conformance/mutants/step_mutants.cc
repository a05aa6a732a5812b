// Faults around attention: what a step reads, which terms it adds, how it sums over ranks.

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "conformance/mutants/mutant.h"
#include "reference/model/dense.h"

namespace bdlm {
namespace {

using Outcome = StepOutcome<double>;

Mutant of_case(const std::string& name, const std::string& kind, const std::string& what,
               std::function<void(DenseCase&)> edit) {
  Mutant m{name, kind, what, {}};
  m.subject.step_case = std::move(edit);
  return m;
}

Mutant before(
    const std::string& name, const std::string& kind, const std::string& what,
    std::function<void(const RankPass&, std::vector<RowInput>&, std::vector<RowTerm>&)> edit) {
  Mutant m{name, kind, what, {}};
  m.subject.step.before = std::move(edit);
  return m;
}

Mutant after(const std::string& name, const std::string& kind, const std::string& what,
             std::function<void(const RankPass&, Outcome&)> edit) {
  Mutant m{name, kind, what, {}};
  m.subject.step.after = std::move(edit);
  return m;
}

bool is_shifted(const DenseCase& c) {
  return c.views.size() == 2;
}

bool is_last_view(const RankPass& pass) {
  return pass.view + 1 == pass.step_case.views.size();
}

/// Calls `edit(view, term)` for the terms of one stream.
template <class Edit>
auto each_term(Stream stream, const Edit& edit) {
  return [stream, edit](DenseCase& c) {
    for (View& view : c.views) {
      for (LossTerm& term : view.terms) {
        if (term.stream == stream) {
          edit(c, term);
        }
      }
    }
  };
}

std::vector<LossTerm> clean_terms(const View& view) {
  std::vector<LossTerm> out;
  std::copy_if(view.terms.begin(), view.terms.end(), std::back_inserter(out),
               [](const LossTerm& term) { return term.stream == Stream::clean; });
  return out;
}

void shift_label(const DenseCase& c, LossTerm& term) {
  const int64_t next = std::min(term.row + 1, c.example.sequence.length() - 1);
  term.label = c.example.tokens[is_shifted(c) ? term.row : next];
}

/// The last row of a document scores the first token of the next.
void shift_across_documents(DenseCase& c) {
  const auto& documents = c.example.sequence.documents();
  for (View& view : c.views) {
    const std::vector<LossTerm> terms = view.terms;
    for (const Stream stream : {Stream::corrupted, Stream::clean}) {
      const auto like = std::find_if(terms.begin(), terms.end(),
                                     [&](const LossTerm& term) { return term.stream == stream; });
      if (like == terms.end() || (stream == Stream::corrupted && !is_shifted(c))) {
        continue;
      }
      for (size_t d = 1; d < documents.size(); ++d) {
        const int64_t row = documents[d].begin;
        view.terms.push_back({stream, row - 1, c.example.tokens[row], like->weight});
      }
    }
  }
}

void sum_chunk_means(DenseCase& c) {
  constexpr size_t chunk = 4;
  for (View& view : c.views) {
    for (size_t i = 0; i < view.terms.size(); ++i) {
      const size_t begin = i / chunk * chunk;
      const size_t size = std::min(chunk, view.terms.size() - begin);
      view.terms[i].weight = 1 / static_cast<double>(size);
    }
  }
}

void score_unmasked(DenseCase& c) {
  if (is_shifted(c)) {
    return;
  }
  View& view = c.views[0];
  std::set<int64_t> scored;
  for (const LossTerm& term : view.terms) {
    scored.insert(term.stream == Stream::corrupted ? term.row : -1);
  }
  const double weight = 1 / static_cast<double>(count_supervised(c.example));
  for (int64_t i = 0; i < c.example.sequence.length(); ++i) {
    if (c.example.is_supervised(i) && scored.count(i) == 0) {
      view.terms.push_back({Stream::corrupted, i, c.example.tokens[i], weight});
    }
  }
}

void repeat_clean_loss(DenseCase& c) {
  const std::vector<LossTerm> again = clean_terms(c.views[0]);
  c.views.back().terms.insert(c.views.back().terms.end(), again.begin(), again.end());
}

/// The index in the rank's storage, or in the two streams one after the other. (Positions that
/// count from the start of the sequence instead of the document's are no fault: rotary scores
/// depend on differences, and no row sees another document.)
void set_positions(const RankPass& pass, std::vector<RowInput>& inputs, bool stored) {
  size_t i = 0;
  for (const Segment& segment : pass.rows.segments()) {
    for (int64_t row = segment.rows.begin; row < segment.rows.end; ++row, ++i) {
      const int64_t behind =
          segment.stream == Stream::clean ? pass.step_case.example.sequence.length() : 0;
      inputs[i].position = stored ? static_cast<int64_t>(i) : behind + row;
    }
  }
}

void zero(DenseParameters<double>& gradients) {
  std::fill(gradients.values().begin(), gradients.values().end(), 0.0);
}

/// The terms of all rows that the rank holds, counted by it or by another.
void count_held_rows(const RankPass& pass, std::vector<RowInput>&, std::vector<RowTerm>& terms) {
  terms.clear();
  for (const LossTerm& term : pass.step_case.views[pass.view].terms) {
    const int64_t stored = pass.rows.find(term.stream, term.row);
    if (stored >= 0) {
      terms.push_back({stored, term.label, term.weight});
    }
  }
}

/// The mean over the rank's own terms, averaged over ranks.
void own_denominator(const RankPass& pass, std::vector<RowInput>&, std::vector<RowTerm>& terms) {
  const auto all = static_cast<double>(pass.step_case.views[pass.view].terms.size());
  for (RowTerm& term : terms) {
    term.weight *= all / (static_cast<double>(terms.size()) * pass.ranks);
  }
}

/// 0/0, as a mean over the terms of a rank that has none.
void nan_without_terms(const RankPass& pass, Outcome& outcome) {
  const auto& terms = pass.step_case.views[pass.view].terms;
  if (std::none_of(terms.begin(), terms.end(), [&](const LossTerm& term) {
        return pass.counted.find(term.stream, term.row) >= 0;
      })) {
    outcome.loss = std::numeric_limits<double>::quiet_NaN();
    std::fill(outcome.gradients.values().begin(), outcome.gradients.values().end(), outcome.loss);
  }
}

enum class AttentionFault : uint8_t { other_recompute, first_layer_keys };

/// The attention of a pass, given other keys and values than the layer computed.
class AttentionMutant final : public AttentionLayer<double> {
 public:
  AttentionMutant(AttentionFault fault, const RankPass& pass, AttentionLayer<double>& right)
      : fault_(fault),
        width_(pass.step_case.config.kv_heads * pass.step_case.config.head_dim),
        size_(pass.rows.size() * width_),
        right_(right) {}

  void forward(int64_t layer, bool keep, const double* q, const double* k, const double* v,
               double* o) override {
    const bool first = seen_.insert(layer).second;
    if (fault_ == AttentionFault::first_layer_keys && layer == 0) {
      keys_.assign(k, k + size_);
      values_.assign(v, v + size_);
    } else if (fault_ == AttentionFault::first_layer_keys) {
      return right_.forward(layer, keep, q, keys_.data(), values_.data(), o);
    } else if (!first) {
      // The rows of a batch that has moved on by one.
      values_.assign(v, v + size_);
      std::rotate(values_.begin(), values_.begin() + width_, values_.end());
      return right_.forward(layer, keep, q, k, values_.data(), o);
    }
    right_.forward(layer, keep, q, k, v, o);
  }

  void backward(int64_t layer, const double* d_o, double* dq, double* dk, double* dv) override {
    right_.backward(layer, d_o, dq, dk, dv);
  }

 private:
  AttentionFault fault_;
  int64_t width_, size_;
  AttentionLayer<double>& right_;
  std::set<int64_t> seen_;
  std::vector<double> keys_, values_;
};

Mutant of_attention(AttentionFault fault, const std::string& name, const std::string& kind,
                    const std::string& what) {
  Mutant m{name, kind, what, {}};
  m.subject.step.attention = [fault](const RankPass& pass, AttentionLayer<double>& right) {
    return std::make_unique<AttentionMutant>(fault, pass, right);
  };
  return m;
}

std::vector<Mutant> case_mutants() {
  return {
      of_case("label-shifted", "label", "a row scores the token after, or before, the right one",
              each_term(Stream::corrupted, shift_label)),
      of_case("shift-across-documents", "label",
              "the last row of a document scores the first token of the next",
              shift_across_documents),
      of_case("mask-logit-kept", "objective",
              "the mask token's logit takes part in a softmax that should leave it out",
              [](DenseCase& c) { c.config.excluded_logit = -1; }),
      of_case("softcap-dropped", "objective", "logits are not capped",
              [](DenseCase& c) { c.config.softcap = 0; }),
      of_case("corruption-lost", "objective", "the corrupted stream reads the clean tokens",
              [](DenseCase& c) {
                for (View& view : c.views) {
                  view.corrupted_tokens = c.example.tokens;
                }
              }),
      of_case(
          "second-view-repeats-first", "objective", "both views are corrupted in the same places",
          [](DenseCase& c) { c.views.back().corrupted_tokens = c.views.front().corrupted_tokens; }),
      of_case("unmasked-tokens-scored", "objective", "tokens that were left alone are scored too",
              score_unmasked),
      of_case("inverse-noise-dropped", "loss normalisation",
              "terms lack their weight of one over the block's noise",
              [](DenseCase& c) {
                if (!is_shifted(c)) {
                  const double n = static_cast<double>(count_supervised(c.example));
                  each_term(Stream::corrupted,
                            [n](const DenseCase&, LossTerm& term) { term.weight = 1 / n; })(c);
                }
              }),
      of_case("chunk-means-summed", "loss normalisation",
              "the loss is a sum of means over chunks of terms", sum_chunk_means),
      of_case("clean-loss-unweighted", "loss normalisation",
              "the clean next-token loss lacks its weight",
              each_term(Stream::clean,
                        [](const DenseCase& c, LossTerm& term) {
                          term.weight =
                              1 / static_cast<double>(count_supervised_successors(c.example));
                        })),
      of_case("clean-loss-counted-twice", "accumulation",
              "the clean next-token loss is added once more", repeat_clean_loss),
  };
}

std::vector<Mutant> rank_mutants() {
  return {
      before("positions-of-both-streams", "positions",
             "positions go on from one stream to the other instead of being the same in both",
             [](const RankPass& pass, std::vector<RowInput>& inputs, std::vector<RowTerm>&) {
               set_positions(pass, inputs, false);
             }),
      before("positions-of-storage", "positions",
             "positions count the rows that the rank holds instead of those of the document",
             [](const RankPass& pass, std::vector<RowInput>& inputs, std::vector<RowTerm>&) {
               set_positions(pass, inputs, true);
             }),
      before("per-rank-denominator", "loss normalisation",
             "each rank takes the mean over its own terms", own_denominator),
      before("held-rows-counted", "accumulation",
             "a rank adds the loss of all rows that it holds, so that rows with copies under BP "
             "count twice",
             count_held_rows),
      after("nan-without-tokens", "loss normalisation", "a rank without supervised tokens adds 0/0",
            nan_without_terms),
      after("partial-gradient-not-added", "reduction",
            "the last rank's gradients are not added to the sum",
            [](const RankPass& pass, Outcome& outcome) {
              if (pass.rank + 1 == pass.ranks) {
                zero(outcome.gradients);
              }
            }),
      after("one-tensor-not-summed", "reduction",
            "the gradient of the final norm is rank 0's instead of the sum",
            [](const RankPass& pass, Outcome& outcome) {
              const ParameterTable& table = outcome.gradients.table();
              if (pass.rank > 0) {
                std::fill_n(outcome.gradients[table.final_norm],
                            table.entries()[table.final_norm].size, 0.0);
              }
            }),
      after("gradients-averaged", "reduction", "gradients are averaged over ranks, not summed",
            [](const RankPass& pass, Outcome& outcome) {
              for (double& x : outcome.gradients.values()) {
                x /= is_last_view(pass) ? pass.ranks : 1;
              }
            }),
      after("loss-of-one-rank", "reduction", "the loss reported is rank 0's part of it",
            [](const RankPass& pass, Outcome& outcome) {
              outcome.loss = pass.rank == 0 ? outcome.loss : 0;
            }),
      after("first-view-dropped", "accumulation",
            "gradients of the second view replace those of the first",
            [](const RankPass& pass, Outcome& outcome) {
              if (!is_last_view(pass)) {
                zero(outcome.gradients);
              }
            }),
      of_attention(AttentionFault::other_recompute, "recompute-of-other-data", "checkpointing",
                   "the recomputed forward of a layer reads the values of other rows"),
      of_attention(AttentionFault::first_layer_keys, "keys-of-first-layer", "accumulation",
                   "later layers attend the K and V of the first"),
  };
}

}  // namespace

std::vector<Mutant> step_mutants() {
  std::vector<Mutant> all = case_mutants();
  for (Mutant& m : rank_mutants()) {
    all.push_back(std::move(m));
  }
  return all;
}

}  // namespace bdlm
