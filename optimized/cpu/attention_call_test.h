#pragma once
// One forward and backward call with intervals that follow no layout, for tests.

#include <cmath>
#include <optional>
#include <vector>

#include "optimized/cpu/plugin_driver_test.h"
#include "reference/base/philox.h"

namespace bdlm::test {

/// Random tensors; every row sees a random interval of either key set, some rows none.
struct AttentionCall {
  AttentionCall(int64_t rows, std::vector<int64_t> key_counts, AttentionShape heads, uint64_t seed)
      : shape(heads), q(fp32, {rows, heads.q_heads, heads.head_dim}), d_o(fp32, q.shape()) {
    random_fill(q, seed, 0);
    random_fill(d_o, seed, 1);
    const Philox random(seed, 9);
    for (size_t s = 0; s < key_counts.size(); ++s) {
      const int64_t n = key_counts[s];
      const std::vector<int64_t> key_shape{n, heads.kv_heads, heads.head_dim};
      k.push_back(std::make_unique<HostTensor>(fp32, key_shape));
      v.push_back(std::make_unique<HostTensor>(fp32, key_shape));
      random_fill(*k[s], seed, 2 + 2 * static_cast<uint32_t>(s));
      random_fill(*v[s], seed, 3 + 2 * static_cast<uint32_t>(s));
      intervals.emplace_back();
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t a = random.below(4 * (s * rows + r), n + 1);
        const int64_t b = random.below(4 * (s * rows + r) + 1, n + 1);
        const bool none = random.below(4 * (s * rows + r) + 2, 5) == 0;
        intervals[s].push_back(std::min(a, b));
        intervals[s].push_back(none ? std::min(a, b) : std::max(a, b));
      }
      key_segments.push_back({static_cast<int32_t>(s), 0, 0, n});
    }
    query_segment = {1, 0, 0, rows};
  }

  static void random_fill(HostTensor& tensor, uint64_t seed, uint32_t id) {
    const Philox random(seed, id);
    for (int64_t i = 0; i < tensor.count(); ++i) {
      tensor.set(i, random.gaussian(i));
    }
  }

  bool sees(size_t set, int64_t row, int64_t key) const {
    return intervals[set][2 * row] <= key && key < intervals[set][2 * row + 1];
  }

  AttentionShape shape;
  HostTensor q, d_o;
  std::vector<std::unique_ptr<HostTensor>> k, v;
  std::vector<std::vector<int64_t>> intervals;
  std::vector<bdlm_segment> key_segments;
  bdlm_segment query_segment{};
};

/// What a call gives.
struct AttentionResult {
  explicit AttentionResult(const AttentionCall& call)
      : o(fp32, call.q.shape()),
        lse(fp32, {call.q.shape()[0], call.q.shape()[1]}),
        dq(fp32, call.q.shape()) {
    for (const auto& k : call.k) {
      dk.push_back(std::make_unique<HostTensor>(fp32, k->shape()));
      dv.push_back(std::make_unique<HostTensor>(fp32, k->shape()));
    }
  }
  HostTensor o, lse, dq;
  std::vector<std::unique_ptr<HostTensor>> dk, dv;

  std::vector<std::vector<uint32_t>> bits() const {
    std::vector<std::vector<uint32_t>> out{o.bits(), lse.bits(), dq.bits()};
    for (size_t s = 0; s < dk.size(); ++s) {
      out.push_back(dk[s]->bits());
      out.push_back(dv[s]->bits());
    }
    return out;
  }
};

inline std::vector<bdlm_keys> key_sets(AttentionCall& call, AttentionResult& result) {
  std::vector<bdlm_keys> sets;
  for (size_t s = 0; s < call.k.size(); ++s) {
    sets.push_back({call.k[s]->get(), call.v[s]->get(), 1, &call.key_segments[s],
                    call.intervals[s].data(), result.dk[s]->get(), result.dv[s]->get()});
  }
  return sets;
}

/// The arguments of both calls; they point into all that is given.
inline bdlm_attention_args forward_args(AttentionCall& call, AttentionResult& result,
                                        const std::vector<bdlm_keys>& sets) {
  bdlm_attention_args args{};
  args.size = sizeof args;
  args.scale = 1 / std::sqrt(static_cast<double>(call.shape.head_dim));
  args.q = call.q.get();
  args.segment_count = 1;
  args.segments = &call.query_segment;
  args.key_set_count = static_cast<int64_t>(sets.size());
  args.key_sets = sets.data();
  args.o = result.o.get();
  args.lse = result.lse.get();
  return args;
}

inline bdlm_attention_backward_args backward_args(AttentionCall& call, AttentionResult& result,
                                                  const std::vector<bdlm_keys>& sets) {
  bdlm_attention_backward_args args{};
  args.size = sizeof args;
  args.scale = 1 / std::sqrt(static_cast<double>(call.shape.head_dim));
  args.q = call.q.get();
  args.segment_count = 1;
  args.segments = &call.query_segment;
  args.key_set_count = static_cast<int64_t>(sets.size());
  args.key_sets = sets.data();
  args.o = result.o.get();
  args.lse = result.lse.get();
  args.d_o = call.d_o.get();
  args.dq = result.dq.get();
  return args;
}

inline std::unique_ptr<AttentionResult> run(const Driver& driver, AttentionCall& call) {
  auto result = std::make_unique<AttentionResult>(call);
  const std::vector<bdlm_keys> sets = key_sets(call, *result);
  const bdlm_attention_args forward = forward_args(call, *result, sets);
  driver.expect_ok(driver->attention(driver.context(), &forward));
  const bdlm_attention_backward_args backward = backward_args(call, *result, sets);
  driver.expect_ok(driver->attention_backward(driver.context(), &backward));
  return result;
}

}  // namespace bdlm::test
