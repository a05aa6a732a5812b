#pragma once
// A backend in plain loops over doubles, which rounds where its contract says: right code into
// which faults are planted.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "conformance/judge/contract.h"
#include "conformance/mutants/backend_object.h"
#include "reference/layout/interval.h"

namespace bdlm {

/// A query row as an entry is told of it.
struct PlainRow {
  int32_t stream = 0;  // BDLM_CLEAN or BDLM_CORRUPTED
  int64_t position = 0;
  int64_t index = 0;  // in the call
};

/// What the mistakes about masks need to know of a key set.
struct PlainKeySet {
  const bdlm_layout& layout;
  int32_t stream = 0;
  /// Position of every stored key, ascending.
  const std::vector<int64_t>& positions;
  /// The stored index of the first key at or behind a position.
  int64_t index_of(int64_t position) const;
};

enum class PlainMerge : uint8_t {
  right,
  average,           ///< (O1 + O2) / 2
  rounded_z,         ///< weights from LSEs rounded to bf16
  from_new_z,        ///< weights exp(z_i - z) with the new z rounded to the contract's lse
  log_of_sum,        ///< log(1 + w) in the format of the accumulation
  reads_empty,       ///< the O of an empty side is multiplied by its weight 0
  new_maximum_lost,  ///< z is the larger one: the sum's growth is dropped
  order_matters,     ///< the first side's term is kept unrounded, as by a fused multiply-add
  no_maximum,        ///< exp of both z as they are, which overflows
  ignores_nan,       ///< a NaN z counts as empty
};

/// Mistakes; none by default.
struct PlainFaults {
  /// What a row sees of a set, instead of the interval that was asked for.
  std::function<Interval(const PlainRow&, const PlainKeySet&, Interval)> seen;
  /// KV head of a query head; (head, q_heads, kv_heads).
  std::function<int64_t(int64_t, int64_t, int64_t)> kv_head;
  /// Which query heads add to dK and dV.
  std::function<bool(int64_t head, int64_t group)> adds_gradient;
  Rounding rounding = Rounding::nearest_even;
  PlainMerge merge = PlainMerge::right;
  /// exp2 of scores that are not multiplied by log2(e).
  bool base_2_scores = false;
  /// An LSE in base 2.
  bool base_2_lse = false;
  /// The backward takes exp2 of s - z.
  bool base_2_backward = false;
  /// delta = sum P dP over the call's keys alone.
  bool local_delta = false;
  /// delta is taken as 0.
  bool no_delta = false;
  /// P from the LSE of the call's keys alone.
  bool local_lse = false;
  /// A state's O as it was stored: in bf16.
  bool state_in_bf16 = false;
  /// The LSE of an output is rounded to bf16.
  bool lse_in_bf16 = false;
  /// Empty rows get this LSE, and O = 0.
  std::optional<double> empty_lse;
  /// The state is not read.
  bool forgets_state = false;
  bool forgets_dq_state = false;
  /// dQ, dK without `scale`.
  bool dq_without_scale = false, dk_without_scale = false;
  /// exp of scores without their maximum, in fp32: overflows at 88.7.
  bool no_maximum = false;
  /// Keys that a row does not see are multiplied by a weight of 0.
  bool multiplies_hidden = false;
  /// Added to every LSE where a key, seen or not, is 2^15 or larger, or no number.
  double shift_at_large_keys = 0;
  bool wrapped_offsets = false;
  /// Intervals of the last call with as many rows and keys.
  bool stale_intervals = false;
  /// Sums start at another key at every call.
  bool unordered = false;
  /// The sums of dO, q and k depend on the alignment of q.
  bool alignment_matters = false;
  /// Cross-entropy.
  bool upstream_ignored = false, first_weight_only = false, label_shifted = false,
       chunk_means = false, counts_ignored_rows = false, reads_ignored_rows = false,
       keeps_excluded = false, softcap_after_exclusion = false, no_softcap_gradient = false;
};

/// Attention, merge and cross-entropy by definition. The contract is one of the built-in ones, or
/// any other.
class PlainBackend : public BackendObject {
 public:
  explicit PlainBackend(Contract contract, PlainFaults faults = {})
      : contract_(std::move(contract)), faults_(std::move(faults)) {}

  std::string contract() const override { return write_contract(contract_); }
  bdlm_status attention(void* context, const bdlm_attention_args& args) override;
  bdlm_status attention_backward(void* context, const bdlm_attention_backward_args& args) override;
  bdlm_status merge(void* context, const bdlm_merge_args& args) override;
  bdlm_status cross_entropy(void* context, const bdlm_cross_entropy_args& args) override;

 protected:
  double rounded(double x, Dtype dtype) const { return round_to(x, dtype, faults_.rounding); }
  /// o1, z1 = merge of both.
  void merge_row(std::span<double> o1, double& z1, std::span<const double> o2, double z2) const;

  Contract contract_;
  PlainFaults faults_;

 private:
  struct Keys;
  template <class Args>
  std::vector<Keys> keys_of(const Args& args);

  int64_t calls_ = 0;
  std::vector<int64_t> last_shape_;
  std::vector<std::vector<Interval>> last_intervals_;
};

}  // namespace bdlm
