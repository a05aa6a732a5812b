#include "conformance/mutants/backend_mutants.h"

#include <algorithm>
#include <string_view>

namespace bdlm {
namespace {

/// A plain backend under a built-in contract with faults.
BackendMutant plain_mutant(const std::string& name, const std::string& kind,
                           const std::string& what, const std::string& tier,
                           const std::string& contract, PlainFaults faults,
                           const std::string& cases = "*") {
  return {name, kind, what, tier, cases, [=](const bdlm_backend&) -> const bdlm_backend& {
            return entries_of(name,
                              std::make_unique<PlainBackend>(builtin_contract(contract), faults));
          }};
}

/// Faults by a switch.
PlainFaults with(bool PlainFaults::*fault) {
  PlainFaults faults;
  faults.*fault = true;
  return faults;
}

PlainFaults with(PlainMerge merge) {
  PlainFaults faults;
  faults.merge = merge;
  return faults;
}

using Seen = std::function<Interval(const PlainRow&, const PlainKeySet&, Interval)>;

PlainFaults with(Seen seen) {
  PlainFaults faults;
  faults.seen = std::move(seen);
  return faults;
}

bool clean(const PlainKeySet& set) {
  return set.stream == BDLM_CLEAN;
}

/// The block of a position.
int64_t block_of(const bdlm_layout& layout, int64_t position) {
  return std::upper_bound(layout.block_start, layout.block_start + layout.blocks, position) -
         layout.block_start - 1;
}

/// The start of a position's document.
int64_t document_start(const bdlm_layout& layout, int64_t position) {
  return *(
      std::upper_bound(layout.document_start, layout.document_start + layout.documents, position) -
      1);
}

/// The first key of a window moves by `by` for rows of one stream.
Seen window_moved(int32_t stream, int64_t by) {
  return [=](const PlainRow& row, const PlainKeySet& set, Interval keys) {
    const bool windowed = row.stream == stream && clean(set) && set.layout.window > 0;
    if (!windowed || keys.empty() || keys.begin + by < 0 || keys.begin + by > keys.end ||
        set.positions[keys.begin] == document_start(set.layout, row.position)) {
      return keys;
    }
    return Interval{keys.begin + by, keys.end};
  };
}

}  // namespace

std::vector<BackendMutant> attention_backend_mutants() {
  std::vector<BackendMutant> out;
  const auto mask = [&](const char* name, const char* kind, const char* what, Seen seen) {
    const bool window = std::string_view(kind) == "window bound";
    const bool documents = std::string_view(name) == "documents-ignored";
    out.push_back(plain_mutant(name, kind, what, "T1", "bf16", with(std::move(seen)),
                               window      ? "*-w*"
                               : documents ? "*docs*"
                                           : "*"));
  };
  mask("one-row-misses-one-key", "coverage", "one clean row leaves out its first key",
       [](const PlainRow& row, const PlainKeySet& set, Interval keys) {
         const bool hit = row.stream == BDLM_CLEAN && row.position == 9 && clean(set);
         return hit && !keys.empty() ? Interval{keys.begin + 1, keys.end} : keys;
       });
  mask("own-clean-block-visible", "mask", "corrupted rows see the clean copy of their own block",
       [](const PlainRow& row, const PlainKeySet& set, Interval keys) {
         if (row.stream != BDLM_CORRUPTED || !clean(set)) {
           return keys;
         }
         const int64_t end = set.layout.block_start[block_of(set.layout, row.position) + 1];
         return Interval{keys.begin, std::max(keys.end, set.index_of(end))};
       });
  mask("previous-block-missing", "mask", "corrupted rows do not see the block before their own",
       [](const PlainRow& row, const PlainKeySet& set, Interval keys) {
         const int64_t block = block_of(set.layout, row.position);
         if (row.stream != BDLM_CORRUPTED || !clean(set) || block == 0) {
           return keys;
         }
         const int64_t start = set.index_of(set.layout.block_start[block - 1]);
         return Interval{keys.begin, std::clamp(start, keys.begin, keys.end)};
       });
  mask("window-one-too-wide-clean", "window bound", "clean rows' windows hold w + 1 keys",
       window_moved(BDLM_CLEAN, -1));
  mask("window-one-too-wide-corrupted", "window bound", "corrupted rows' windows hold w keys",
       window_moved(BDLM_CORRUPTED, -1));
  mask("window-one-too-narrow-clean", "window bound", "clean rows' windows hold w - 1 keys",
       window_moved(BDLM_CLEAN, 1));
  mask("window-one-too-narrow-corrupted", "window bound", "corrupted rows' windows hold w - 2 keys",
       window_moved(BDLM_CORRUPTED, 1));
  mask("corrupted-block-causal", "mask", "corrupted rows see their own block up to themselves",
       [](const PlainRow& row, const PlainKeySet& set, Interval keys) {
         return row.stream == BDLM_CORRUPTED && !clean(set)
                    ? Interval{keys.begin, std::min(keys.end, set.index_of(row.position + 1))}
                    : keys;
       });
  mask("documents-ignored", "mask", "rows see the documents before theirs",
       [](const PlainRow&, const PlainKeySet& set, Interval keys) {
         return clean(set) && set.layout.documents > 1 && set.layout.window == 0 && !keys.empty()
                    ? Interval{0, keys.end}
                    : keys;
       });

  PlainFaults modulo;
  modulo.kv_head = [](int64_t h, int64_t, int64_t kv_heads) { return h % kv_heads; };
  out.push_back(plain_mutant("kv-head-by-modulo", "GQA index map",
                             "query head h reads KV head h modulo Hkv", "T1", "bf16", modulo));
  PlainFaults first;
  first.adds_gradient = [](int64_t h, int64_t group) { return h % group == 0; };
  out.push_back(plain_mutant("first-head-only", "GQA gradient",
                             "dK and dV have the first query head of a group alone", "T1", "bf16",
                             first));
  out.push_back(plain_mutant("lse-in-base-2", "logarithm base", "LSE is a base-2 logarithm", "T1",
                             "bf16", with(&PlainFaults::base_2_lse)));
  out.push_back(plain_mutant("scores-in-base-2", "logarithm base",
                             "the forward takes exp2 of natural scores", "T4", "bf16",
                             with(&PlainFaults::base_2_scores)));
  out.push_back(plain_mutant("backward-in-base-2", "logarithm base",
                             "the backward takes exp2 of s - z", "T4", "bf16",
                             with(&PlainFaults::base_2_backward)));
  out.push_back(plain_mutant("delta-from-partial-o", "merged state",
                             "delta is the sum of P dP over one call's keys", "T4", "bf16",
                             with(&PlainFaults::local_delta), "csbp*"));
  out.push_back(plain_mutant("delta-left-out", "softmax gradient", "delta is 0", "T4", "bf16",
                             with(&PlainFaults::no_delta)));
  out.push_back(plain_mutant("part-lse-in-backward", "merged state",
                             "P comes from the LSE of one call's keys", "T4", "bf16",
                             with(&PlainFaults::local_lse), "csbp*"));
  out.push_back(plain_mutant("state-forgotten", "partial results",
                             "a call does not continue from its state", "T1", "bf16",
                             with(&PlainFaults::forgets_state), "csbp*"));
  out.push_back(plain_mutant("dq-state-forgotten", "partial results",
                             "dQ does not continue from its state", "T1", "bf16",
                             with(&PlainFaults::forgets_dq_state), "csbp*"));
  out.push_back(plain_mutant("dq-without-scale", "scale", "dQ lacks the factor scale", "T4", "bf16",
                             with(&PlainFaults::dq_without_scale)));
  out.push_back(plain_mutant("dk-without-scale", "scale", "dK lacks the factor scale", "T4", "bf16",
                             with(&PlainFaults::dk_without_scale)));
  PlainFaults truncate;
  truncate.rounding = Rounding::truncate;
  out.push_back(plain_mutant("truncation-for-rounding", "rounding",
                             "bits are cut off where numbers should be rounded", "T4", "bf16",
                             truncate));
  out.push_back(plain_mutant("bf16-partial-o", "declared formats",
                             "partial O is kept in bf16 under a contract of fp32", "T4", "fp32",
                             with(&PlainFaults::state_in_bf16), "csbp*"));
  out.push_back(plain_mutant("bf16-lse", "declared formats", "the LSE is rounded to bf16", "T4",
                             "bf16", with(&PlainFaults::lse_in_bf16)));
  PlainFaults sentinel;
  sentinel.empty_lse = -1e30;
  out.push_back(plain_mutant("finite-sentinel", "identity element",
                             "a row without keys has the LSE -1e30 instead of -inf", "T4", "fp32",
                             sentinel, "*docs*"));
  out.push_back(plain_mutant("no-maximum", "overflow", "scores go into exp without their maximum",
                             "T4", "fp32", with(&PlainFaults::no_maximum), "*scores*"));
  out.push_back(plain_mutant("hidden-keys-times-zero", "masking by zero",
                             "keys that a row does not see are multiplied by 0", "T5", "bf16",
                             with(&PlainFaults::multiplies_hidden), "monolithic*hidden*"));
  out.push_back(plain_mutant("stale-mask", "stale cache",
                             "the intervals of the last call of that shape are used again", "T6",
                             "bf16", with(&PlainFaults::stale_intervals), "order*"));
  out.push_back(plain_mutant("unordered-sum", "determinism",
                             "sums change their order from call to call", "T6", "fp32",
                             with(&PlainFaults::unordered), "determinism*attention"));
  out.push_back(plain_mutant("alignment-matters", "determinism",
                             "sums change their order with the alignment of Q", "T6", "fp32",
                             with(&PlainFaults::alignment_matters), "hygiene*attention*"));
  out.push_back(plain_mutant("32-bit-offset", "index width", "offsets are computed in 32 bits",
                             "T6", "fp32", with(&PlainFaults::wrapped_offsets), "offsets*"));
  return out;
}

std::vector<BackendMutant> merge_backend_mutants() {
  std::vector<BackendMutant> out;
  const auto merge = [&](const char* name, const char* kind, const char* what, PlainMerge how) {
    out.push_back(plain_mutant(name, kind, what, "T4", "fp32", with(how), "merge-*"));
  };
  merge("merge-by-average", "merge weights", "two partial outputs are averaged",
        PlainMerge::average);
  merge("merge-by-bf16-lse", "merge weights", "weights come from LSEs in bf16",
        PlainMerge::rounded_z);
  merge("merge-by-new-lse", "merge weights", "weights come from the rounded new LSE",
        PlainMerge::from_new_z);
  merge("merge-log-of-sum", "merge weights", "log(1 + w) instead of log1p(w)",
        PlainMerge::log_of_sum);
  merge("merge-reads-empty-side", "identity element", "the O of an empty side is multiplied by 0",
        PlainMerge::reads_empty);
  merge("merge-keeps-larger-lse", "merge weights", "the new LSE is the larger of the two",
        PlainMerge::new_maximum_lost);
  merge("merge-without-maximum", "overflow", "exp of both LSEs as they are",
        PlainMerge::no_maximum);
  merge("merge-hides-nan", "non-finite values", "a NaN LSE counts as an empty side",
        PlainMerge::ignores_nan);
  merge("merge-not-commutative", "contraction", "one side's product is rounded, the other's not",
        PlainMerge::order_matters);
  const auto loss = [&](const char* name, const char* kind, const char* what,
                        bool PlainFaults::*fault) {
    out.push_back(plain_mutant(name, kind, what, "T4", "bf16", with(fault), "crossentropy-*"));
  };
  loss("upstream-ignored", "cotangent", "the upstream gradient is taken as 1",
       &PlainFaults::upstream_ignored);
  loss("first-weight-only", "cotangent", "every row has the weight of the first one",
       &PlainFaults::first_weight_only);
  loss("label-shifted", "labels", "a row scores the next row's label", &PlainFaults::label_shifted);
  loss("chunk-means-summed", "loss normalisation", "chunks are divided by their own row counts",
       &PlainFaults::chunk_means);
  loss("ignored-rows-counted", "labels", "rows without a label score class 0",
       &PlainFaults::counts_ignored_rows);
  loss("ignored-rows-read", "non-finite values", "ignored rows are multiplied by 0",
       &PlainFaults::reads_ignored_rows);
  loss("excluded-logit-kept", "softmax", "the excluded class takes part",
       &PlainFaults::keeps_excluded);
  loss("softcap-after-exclusion", "softmax", "the cap brings the excluded class back",
       &PlainFaults::softcap_after_exclusion);
  loss("softcap-without-gradient", "softmax", "gradients pass the cap unchanged",
       &PlainFaults::no_softcap_gradient);
  return out;
}

std::vector<BackendMutant> backend_mutants() {
  std::vector<BackendMutant> out = attention_backend_mutants();
  for (const auto make : {merge_backend_mutants, wrapped_backend_mutants, step_backend_mutants}) {
    for (BackendMutant& mutant : make()) {
      out.push_back(std::move(mutant));
    }
  }
  return out;
}

}  // namespace bdlm
