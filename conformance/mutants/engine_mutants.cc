// Faults in what computes and packs. Each engine runs in double and in rationals.

#include "conformance/mutants/backward_faults.h"
#include "conformance/mutants/forward_faults.h"
#include "conformance/mutants/mutant.h"
#include "conformance/mutants/transfer_faults.h"
#include "reference/math/exact.h"

namespace bdlm {
namespace {

template <class T, template <class> class MutantEngine, class Fault>
EngineFactory<T> factory(Fault fault) {
  return [fault](const RankPlan& plan, const AttentionShape& shape, const T& scale,
                 const AttentionOptions& options) {
    return std::make_unique<MutantEngine<T>>(fault, plan, shape, scale, options);
  };
}

template <template <class> class MutantEngine, class Fault>
Mutant mutant_of(Fault fault, const std::string& name, const std::string& kind,
                 const std::string& what) {
  Mutant m{name, kind, what, {}};
  m.subject.engine_f64 = factory<double, MutantEngine>(fault);
  m.subject.engine_exact = factory<Exact, MutantEngine>(fault);
  return m;
}

Mutant mutant(ForwardFault fault, const std::string& name, const std::string& kind,
              const std::string& what) {
  return mutant_of<ForwardMutant>(fault, name, kind, what);
}
Mutant mutant(BackwardFault fault, const std::string& name, const std::string& kind,
              const std::string& what) {
  return mutant_of<BackwardMutant>(fault, name, kind, what);
}
Mutant mutant(TransferFault fault, const std::string& name, const std::string& kind,
              const std::string& what) {
  return mutant_of<TransferMutant>(fault, name, kind, what);
}

}  // namespace

std::vector<Mutant> engine_mutants() {
  return {
      mutant(ForwardFault::plain_average, "merge-plain-average", "merge",
             "two parts of a row are averaged instead of weighted by their sums"),
      mutant(ForwardFault::rounded_lse, "merge-weights-rounded", "merge",
             "weights of a merge come from the merged log-sum-exp after it has been rounded"),
      mutant(ForwardFault::mixed_bases, "lse-bases-mixed", "LSE",
             "a log-sum-exp to base 2 is merged with one to base e"),
      mutant(ForwardFault::state_overwritten, "state-overwritten", "merge",
             "a row's new keys replace what it has attended before"),
      mutant(ForwardFault::first_lse_kept, "lse-not-merged", "LSE",
             "O is merged, the log-sum-exp stays that of the first keys"),
      mutant(ForwardFault::sentinel, "finite-sentinel", "LSE",
             "a finite number stands for the log-sum-exp of no keys"),
      mutant(ForwardFault::empty_is_infinite, "empty-row-plus-inf", "LSE",
             "a row without keys reports the log-sum-exp +inf"),
      mutant(ForwardFault::unwritten_output, "output-unwritten", "output",
             "the output of a row without keys is left as it was found"),
      mutant(ForwardFault::unwritten_tail, "tail-row-unwritten", "output",
             "the last row of an odd number of rows is not written"),
      mutant(ForwardFault::truncation, "truncation", "rounding",
             "digits of a part are cut off where they should be rounded or kept"),
      mutant(BackwardFault::partial_delta, "delta-from-part", "softmax backward",
             "delta comes from the O of one set of keys instead of the merged O"),
      mutant(BackwardFault::partial_lse, "lse-of-part", "softmax backward",
             "probabilities come from the log-sum-exp of one set of keys instead of the merged"),
      mutant(BackwardFault::ones_upstream, "upstream-ignored", "cotangent",
             "the upstream gradient is taken to be all ones"),
      mutant(BackwardFault::first_upstream, "upstream-of-first-row", "cotangent",
             "every row gets the upstream gradient of the first"),
      mutant(BackwardFault::dk_one_percent, "dk-one-percent", "scale", "dK is 1 % too large"),
      mutant(BackwardFault::dv_one_element, "one-element-five-percent", "scale",
             "one element of dV is 5 % too large"),
      mutant(BackwardFault::dk_without_scale, "scale-missing-in-dk", "softmax backward",
             "dK lacks the scale of the scores"),
      mutant(BackwardFault::dq_overwritten, "dq-overwritten", "accumulation",
             "dQ of one set of keys replaces that of the set before"),
      mutant(BackwardFault::gqa_modulo, "gqa-modulo", "GQA map",
             "query head h reads KV head h mod Hkv"),
      mutant(BackwardFault::first_head_only, "gqa-first-head-only", "GQA map",
             "dK and dV come from the first query head of each group"),
      mutant(BackwardFault::neighbour_kv_heads, "gqa-gradient-of-neighbour", "GQA map",
             "dK and dV of a KV head are those of the next one"),
      mutant(TransferFault::stale_forward, "stale-kv", "transport",
             "a rank attends its own K and V where it should attend gathered ones"),
      mutant(TransferFault::stale_backward, "stale-kv-backward", "transport",
             "the backward uses a rank's own K and V for gathered ones; the forward is right"),
      mutant(TransferFault::unpack_order, "gather-unpacked-in-reverse", "gather order",
             "gathered shards are unpacked from the last rank to the first"),
      mutant(TransferFault::chunks_swapped, "chunks-packed-in-reverse", "gather order",
             "a rank packs its second chunk before its first"),
      mutant(TransferFault::padding_read, "padding-read-as-rows", "padding",
             "a padded shard is read as if it were full, so that padding becomes values"),
      mutant(TransferFault::padding_summed, "padding-added", "padding",
             "padding of the reduce-scatter is added to gradients"),
      mutant(TransferFault::own_dropped, "own-contribution-dropped", "reduction",
             "the reduce-scatter lacks a rank's own contribution to its shard"),
      mutant(TransferFault::scatter_order, "scatter-packed-in-reverse", "reduction",
             "gradients are packed for the last rank first"),
      mutant(TransferFault::halo_overwritten, "halo-gradient-overwritten", "halo",
             "halo gradients that come back replace the owner's instead of adding to them"),
      mutant(TransferFault::halo_half_returned, "halo-dv-dropped", "halo",
             "of the halo gradients that come back dV is not added"),
  };
}

}  // namespace bdlm
