#include "optimized/cpu/attention_problem.h"

#include <cmath>

#include "reference/base/error.h"

namespace bdlm::cpu {
namespace {

/// What the segments say has to be as many rows as the tensor holds.
void check_segments(const char* what, int64_t count, const bdlm_segment* segments, int64_t rows) {
  require(count >= 0 && (count == 0 || segments != nullptr), what, " has ", count, " segments at ",
          segments == nullptr ? "no" : "an", " address");
  int64_t sum = 0;
  for (int64_t s = 0; s < count; ++s) {
    require(segments[s].count >= 0, "segment ", s, " of ", what, " has ", segments[s].count,
            " rows; allowed are 0 or more");
    sum += segments[s].count;
  }
  require(sum == rows, "the segments of ", what, " have ", sum, " rows; the tensor has ", rows);
}

KeySet read_keys(const bdlm_keys& keys, const AttentionShape& shape, int64_t q_heads,
                 const Formats& formats, bool backward) {
  KeySet set{};
  set.k = TensorView::of(keys.k, "k", 3, {formats.input});
  set.v = TensorView::of(keys.v, "v", 3, {formats.input});
  const int64_t heads = set.k.size(1);
  require(heads >= 1 && q_heads % heads == 0, "k has ", heads, " heads; the ", q_heads,
          " query heads must be a multiple");
  set.k.expect("k", {set.size(), heads, shape.head_dim});
  set.v.expect("v", {set.size(), heads, shape.head_dim});
  check_segments("the keys", keys.segment_count, keys.segments, set.size());
  require(shape.rows == 0 || keys.intervals != nullptr, "intervals are missing");
  set.intervals = keys.intervals;
  for (int64_t row = 0; row < shape.rows; ++row) {
    const Interval seen = set.seen(row);
    require(0 <= seen.begin && seen.begin <= seen.end && seen.end <= set.size(),
            "the interval of row ", row, " is ", seen, "; it must lie in [0,", set.size(), ")");
  }
  if (backward) {
    set.dk = TensorView::of(keys.dk, "dk", 3, {formats.gradient, Element::fp32});
    set.dv = TensorView::of(keys.dv, "dv", 3, {formats.gradient, Element::fp32});
    set.dk.expect("dk", {set.size(), heads, shape.head_dim});
    set.dv.expect("dv", {set.size(), heads, shape.head_dim});
  }
  return set;
}

/// What forward and backward have in common.
template <class Args>
AttentionProblem read_common(const Args& args, const Formats& formats, bool backward) {
  require(args.size >= sizeof(Args), "the arguments have ", args.size, " bytes; this version has ",
          sizeof(Args));
  AttentionProblem p;
  require(std::isfinite(args.scale), "scale is ", args.scale, "; it must be finite");
  p.scale = static_cast<float>(args.scale);
  p.q = TensorView::of(args.q, "q", 3, {formats.input});
  p.shape.rows = p.q.size(0);
  p.shape.q_heads = p.q.size(1);
  p.shape.head_dim = p.q.size(2);
  require(p.shape.q_heads >= 1 && p.shape.head_dim >= 1, "q has ", p.shape.q_heads, " heads of ",
          p.shape.head_dim, " channels; at least 1 each is needed");
  check_segments("the queries", args.segment_count, args.segments, p.shape.rows);
  require(0 <= args.key_set_count && args.key_set_count <= most_key_sets, "there are ",
          args.key_set_count, " key sets; allowed are 0 to ", most_key_sets);
  require(args.key_set_count == 0 || args.key_sets != nullptr, "key_sets is missing");
  p.key_set_count = args.key_set_count;
  p.shape.kv_heads = p.shape.q_heads;
  for (int64_t s = 0; s < p.key_set_count; ++s) {
    p.key_sets[s] = read_keys(args.key_sets[s], p.shape, p.shape.q_heads, formats, backward);
    const int64_t heads = p.key_sets[s].k.size(1);
    require(s == 0 || heads == p.shape.kv_heads, "the key sets have ", p.shape.kv_heads, " and ",
            heads, " heads; the numbers must be equal");
    p.shape.kv_heads = heads;
  }
  p.o = TensorView::of(args.o, "o", 3, {formats.output, Element::fp32});
  p.lse = TensorView::of(args.lse, "lse", 2, {Element::fp32});
  p.o.expect("o", {p.shape.rows, p.shape.q_heads, p.shape.head_dim});
  p.lse.expect("lse", {p.shape.rows, p.shape.q_heads});
  return p;
}

}  // namespace

AttentionProblem read_problem(const bdlm_attention_args& args, const Formats& formats) {
  AttentionProblem p = read_common(args, formats, false);
  require((args.o_state == nullptr) == (args.lse_state == nullptr),
          "a state needs both o_state and lse_state");
  if (args.o_state != nullptr) {
    p.o_state = TensorView::of(args.o_state, "o_state", 3, {Element::fp32});
    p.lse_state = TensorView::of(args.lse_state, "lse_state", 2, {Element::fp32});
    p.o_state.expect("o_state", {p.shape.rows, p.shape.q_heads, p.shape.head_dim});
    p.lse_state.expect("lse_state", {p.shape.rows, p.shape.q_heads});
  }
  return p;
}

AttentionProblem read_problem(const bdlm_attention_backward_args& args, const Formats& formats) {
  AttentionProblem p = read_common(args, formats, true);
  p.d_o = TensorView::of(args.d_o, "d_o", 3, {formats.input});
  p.d_o.expect("d_o", {p.shape.rows, p.shape.q_heads, p.shape.head_dim});
  p.dq = TensorView::of(args.dq, "dq", 3, {formats.gradient, Element::fp32});
  p.dq.expect("dq", {p.shape.rows, p.shape.q_heads, p.shape.head_dim});
  if (args.dq_state != nullptr) {
    p.dq_state = TensorView::of(args.dq_state, "dq_state", 3, {Element::fp32});
    p.dq_state.expect("dq_state", {p.shape.rows, p.shape.q_heads, p.shape.head_dim});
  }
  return p;
}

}  // namespace bdlm::cpu
