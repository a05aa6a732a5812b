#include "conformance/mutants/plain_backend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "conformance/mutants/tensor_access.h"

namespace bdlm {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The elements of a tensor of three axes, or none.
class Values {
 public:
  Values(const bdlm_tensor* tensor, bool wrapped) {
    const TensorAccess from(tensor, wrapped);
    if (!from.exists()) {
      return;
    }
    shape_ = {from.size(0), from.size(1), from.size(2)};
    for_each_element(
        *tensor, [&](int64_t a, int64_t b, int64_t c) { values_.push_back(from.get(a, b, c)); });
  }
  bool exists() const { return shape_[2] > 0; }
  int64_t size(int axis) const { return shape_[axis]; }
  const double* row(int64_t a, int64_t b) const {
    return values_.data() + (a * shape_[1] + b) * shape_[2];
  }
  double get(int64_t a, int64_t b, int64_t c) const { return row(a, b)[c]; }
  /// Whether an element is 2^15 or larger, or no number.
  bool any_large() const {
    return !std::all_of(values_.begin(), values_.end(),
                        [](double x) { return std::abs(x) < 0x1p15; });
  }

 private:
  std::array<int64_t, 3> shape_{};
  std::vector<double> values_;
};

std::vector<PlainRow> rows_of(int64_t count, const bdlm_segment* segments) {
  std::vector<PlainRow> out;
  for (int64_t s = 0; s < count; ++s) {
    for (int64_t i = 0; i < segments[s].count; ++i) {
      out.push_back({segments[s].stream, segments[s].first + i, static_cast<int64_t>(out.size())});
    }
  }
  return out;
}

/// What an argument may not be.
template <class Args>
bdlm_status check(const Args& args) {
  if (args.size < sizeof(Args) || args.layout == nullptr || args.q == nullptr ||
      args.key_set_count < 0 || args.key_set_count > 2) {
    return BDLM_INVALID;
  }
  for (int64_t s = 0; s < args.key_set_count; ++s) {
    const bdlm_keys& keys = args.key_sets[s];
    if (keys.k == nullptr || keys.v == nullptr || args.q->shape[1] % keys.k->shape[1] != 0 ||
        args.q->shape[2] != keys.k->shape[2]) {
      return BDLM_INVALID;
    }
    for (int64_t i = 0; i < args.q->shape[0]; ++i) {
      if (keys.intervals[2 * i] < 0 || keys.intervals[2 * i] > keys.intervals[2 * i + 1] ||
          keys.intervals[2 * i + 1] > keys.k->shape[0]) {
        return BDLM_INVALID;
      }
    }
  }
  return BDLM_OK;
}

}  // namespace

int64_t PlainKeySet::index_of(int64_t position) const {
  return std::lower_bound(positions.begin(), positions.end(), position) - positions.begin();
}

struct PlainBackend::Keys {
  Values k, v;
  TensorAccess dk, dv;
  std::vector<int64_t> positions;
  std::vector<Interval> seen;  // (R)
};

template <class Args>
std::vector<PlainBackend::Keys> PlainBackend::keys_of(const Args& args) {
  const std::vector<PlainRow> rows = rows_of(args.segment_count, args.segments);
  std::vector<Keys> out;
  std::vector<int64_t> shape{args.q->shape[0]};
  std::vector<std::vector<Interval>> asked;
  const bool wrap = faults_.wrapped_offsets;
  for (int64_t s = 0; s < args.key_set_count; ++s) {
    const bdlm_keys& set = args.key_sets[s];
    Keys keys{Values(set.k, wrap),
              Values(set.v, wrap),
              TensorAccess(set.dk, wrap),
              TensorAccess(set.dv, wrap),
              {},
              {}};
    for (const PlainRow& key : rows_of(set.segment_count, set.segments)) {
      keys.positions.push_back(key.position);
    }
    const int32_t stream = set.segment_count > 0 ? set.segments[0].stream : BDLM_CLEAN;
    const PlainKeySet about{*args.layout, stream, keys.positions};
    for (const PlainRow& row : rows) {
      const Interval wanted{set.intervals[2 * row.index], set.intervals[2 * row.index + 1]};
      keys.seen.push_back(faults_.seen ? faults_.seen(row, about, wanted) : wanted);
    }
    shape.push_back(set.k->shape[0]);
    asked.push_back(keys.seen);
    out.push_back(std::move(keys));
  }
  if (faults_.stale_intervals && shape == last_shape_) {
    for (size_t s = 0; s < out.size(); ++s) {
      out[s].seen = last_intervals_[s];
    }
  }
  if (shape != last_shape_) {
    last_shape_ = shape;
    last_intervals_ = asked;
  }
  ++calls_;
  return out;
}

bdlm_status PlainBackend::attention(void* /*context*/, const bdlm_attention_args& args) {
  if (const bdlm_status status = check(args); status != BDLM_OK) {
    return status;
  }
  const bool wrap = faults_.wrapped_offsets;
  const Values q(args.q, wrap), o_state(args.o_state, wrap);
  const TensorAccess o(args.o, wrap), lse(args.lse, wrap), lse_state(args.lse_state, wrap);
  const std::vector<Keys> sets = keys_of(args);
  const int64_t rows = q.size(0), heads = q.size(1), d = q.size(2);
  const double lse_shift =
      std::any_of(sets.begin(), sets.end(), [](const Keys& set) { return set.k.any_large(); })
          ? faults_.shift_at_large_keys
          : 0;
#pragma omp parallel for schedule(dynamic, 4)
  for (int64_t i = 0; i < rows; ++i) {
    std::vector<double> sum(d), state(d);
    for (int64_t h = 0; h < heads; ++h) {
      // Scores, with where their keys are.
      struct Seen {
        const Keys* set;
        int64_t key, kv;
        double score;
      };
      std::vector<Seen> seen;
      double most = -infinity;
      for (const Keys& set : sets) {
        const int64_t kv_heads = set.k.size(1);
        const int64_t kv =
            faults_.kv_head ? faults_.kv_head(h, heads, kv_heads) : h / (heads / kv_heads);
        for (int64_t j = set.seen[i].begin; j < set.seen[i].end; ++j) {
          double s = 0;
          const double* q_row = q.row(i, h);
          const double* k_row = set.k.row(j, kv);
          for (int64_t c = 0; c < d; ++c) {
            s += q_row[c] * k_row[c];
          }
          s *= args.scale * (faults_.base_2_scores ? std::log(2.0) : 1);
          seen.push_back({&set, j, kv, s});
          most = std::max(most, s);
        }
      }
      if (faults_.unordered && !seen.empty()) {
        std::rotate(seen.begin(), seen.begin() + calls_ % static_cast<int64_t>(seen.size()),
                    seen.end());
      }
      if (faults_.alignment_matters && reinterpret_cast<uintptr_t>(args.q->data) % 16 != 0) {
        std::reverse(seen.begin(), seen.end());
      }
      std::fill(sum.begin(), sum.end(), 0);
      double l = 0;
      const double shift = faults_.no_maximum ? 0 : most;
      const bool in_fp32 = contract_.accumulate == Dtype::fp32;
      for (const Seen& x : seen) {
        double p = std::exp(x.score - shift);
        p = faults_.no_maximum ? round_to(p, contract_.accumulate) : p;
        l += p;
        const double p_rounded = rounded(p, contract_.p);
        const double* v_row = x.set->v.row(x.key, x.kv);
        for (int64_t c = 0; c < d; ++c) {
          sum[c] += p_rounded * v_row[c];
          if (in_fp32 && (faults_.unordered || faults_.alignment_matters)) {
            sum[c] = round_to(sum[c], Dtype::fp32);
          }
        }
      }
      if (faults_.multiplies_hidden) {
        for (const Keys& set : sets) {
          for (int64_t j = 0; j < set.v.size(0); ++j) {
            for (int64_t c = 0; c < d; ++c) {
              sum[c] +=
                  set.seen[i].contains(j) ? 0 : 0 * set.v.get(j, seen.empty() ? 0 : seen[0].kv, c);
            }
          }
        }
      }
      double z = seen.empty() ? -infinity : shift + std::log(l);
      for (int64_t c = 0; c < d && !seen.empty(); ++c) {
        sum[c] /= l;
      }
      if (seen.empty() && faults_.empty_lse) {
        z = *faults_.empty_lse;
      }
      if (o_state.exists() && !faults_.forgets_state) {
        for (int64_t c = 0; c < d; ++c) {
          state[c] = o_state.get(i, h, c);
          state[c] = faults_.state_in_bf16 ? round_to(state[c], Dtype::bf16) : state[c];
        }
        // As a merge of two stored results, rounded alike.
        for (double& x : sum) {
          x = round_to(x, contract_.partial_o, faults_.rounding);
        }
        double z_state = lse_state.get(i, h);
        merge_row(state, z_state, sum, z);
        sum = state;
        z = z_state;
      }
      for (int64_t c = 0; c < d; ++c) {
        o.set(sum[c], i, h, c, faults_.rounding);
      }
      z *= faults_.base_2_lse ? 1 / std::log(2.0) : 1;
      z += lse_shift;
      lse.set(faults_.lse_in_bf16 ? round_to(z, Dtype::bf16) : z, i, h);
    }
  }
  return BDLM_OK;
}

bdlm_status PlainBackend::attention_backward(void* /*context*/,
                                             const bdlm_attention_backward_args& args) {
  if (const bdlm_status status = check(args); status != BDLM_OK) {
    return status;
  }
  const bool wrap = faults_.wrapped_offsets;
  const Values q(args.q, wrap), o(args.o, wrap), d_o(args.d_o, wrap);
  const Values dq_state(args.dq_state, wrap);
  const TensorAccess lse(args.lse, wrap), dq(args.dq, wrap);
  const std::vector<Keys> sets = keys_of(args);
  const int64_t rows = q.size(0), heads = q.size(1), d = q.size(2);
  std::vector<std::vector<double>> dk(sets.size()), dv(sets.size());
  for (size_t s = 0; s < sets.size(); ++s) {
    dk[s].assign(sets[s].k.size(0) * sets[s].k.size(1) * d, 0);
    dv[s] = dk[s];
  }
  std::vector<double> sum(d);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t h = 0; h < heads; ++h) {
      struct Seen {
        size_t set;
        int64_t key, kv;
        double score, dp;
      };
      std::vector<Seen> seen;
      for (size_t s = 0; s < sets.size(); ++s) {
        const int64_t kv_heads = sets[s].k.size(1);
        const int64_t kv =
            faults_.kv_head ? faults_.kv_head(h, heads, kv_heads) : h / (heads / kv_heads);
        for (int64_t j = sets[s].seen[i].begin; j < sets[s].seen[i].end; ++j) {
          Seen x{s, j, kv, 0, 0};
          const double *q_row = q.row(i, h), *d_o_row = d_o.row(i, h);
          const double *k_row = sets[s].k.row(j, kv), *v_row = sets[s].v.row(j, kv);
          for (int64_t c = 0; c < d; ++c) {
            x.score += q_row[c] * k_row[c];
            x.dp += d_o_row[c] * v_row[c];
          }
          x.score *= args.scale;
          seen.push_back(x);
        }
      }
      double z = lse.get(i, h);
      if (faults_.local_lse && !seen.empty()) {
        double most = -infinity, l = 0;
        for (const Seen& x : seen) {
          most = std::max(most, x.score);
        }
        for (const Seen& x : seen) {
          l += std::exp(x.score - most);
        }
        z = most + std::log(l);
      }
      const auto probability = [&](const Seen& x) {
        if (z == -infinity) {
          return 0.0;
        }
        return faults_.base_2_backward ? std::exp2(x.score - z) : std::exp(x.score - z);
      };
      double delta = 0;
      for (int64_t c = 0; c < d && !faults_.local_delta && !faults_.no_delta; ++c) {
        delta += d_o.get(i, h, c) * o.get(i, h, c);
      }
      for (const Seen& x : seen) {
        delta += faults_.local_delta ? probability(x) * x.dp : 0;
      }
      std::fill(sum.begin(), sum.end(), 0);
      for (const Seen& x : seen) {
        const Keys& set = sets[x.set];
        const double p = probability(x);
        const double p_rounded = rounded(p, contract_.p);
        const double ds = rounded(p * (x.dp - delta), contract_.ds);
        const int64_t at = (x.key * set.k.size(1) + x.kv) * d;
        const bool adds = !faults_.adds_gradient || faults_.adds_gradient(h, heads / set.k.size(1));
        const double *q_row = q.row(i, h), *d_o_row = d_o.row(i, h);
        const double* k_row = set.k.row(x.key, x.kv);
        const double of_dq = (faults_.dq_without_scale ? 1 : args.scale) * ds;
        const double of_dk = (faults_.dk_without_scale ? 1 : args.scale) * ds;
        double *dk_row = &dk[x.set][at], *dv_row = &dv[x.set][at];
        for (int64_t c = 0; c < d; ++c) {
          sum[c] += of_dq * k_row[c];
        }
        for (int64_t c = 0; c < d && adds; ++c) {
          dk_row[c] += of_dk * q_row[c];
          dv_row[c] += p_rounded * d_o_row[c];
        }
      }
      for (int64_t c = 0; c < d; ++c) {
        const bool state = dq_state.exists() && !faults_.forgets_dq_state;
        dq.set(sum[c] + (state ? dq_state.get(i, h, c) : 0), i, h, c, faults_.rounding);
      }
    }
  }
  for (size_t s = 0; s < sets.size(); ++s) {
    const int64_t kv_heads = sets[s].k.size(1);
    for (int64_t j = 0; j < sets[s].k.size(0); ++j) {
      for (int64_t g = 0; g < kv_heads; ++g) {
        for (int64_t c = 0; c < d; ++c) {
          sets[s].dk.set(dk[s][(j * kv_heads + g) * d + c], j, g, c, faults_.rounding);
          sets[s].dv.set(dv[s][(j * kv_heads + g) * d + c], j, g, c, faults_.rounding);
        }
      }
    }
  }
  return BDLM_OK;
}

}  // namespace bdlm
