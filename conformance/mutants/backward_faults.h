#pragma once
// Engines whose backward is wrong: the softmax backward, the cotangent, the map of heads, sums.

#include <algorithm>
#include <vector>

#include "reference/parallel/cpu_engine.h"

namespace bdlm {

enum class BackwardFault : uint8_t {
  partial_delta,       ///< delta from the O of these keys alone
  partial_lse,         ///< P from the LSE of these keys alone
  ones_upstream,       ///< the upstream gradient is taken to be one
  first_upstream,      ///< every row gets the upstream gradient of the first
  dk_one_percent,      ///< dK is 1 % too large
  dv_one_element,      ///< one element of dV is 5 % too large
  dk_without_scale,    ///< the scale of scores is missing in dK
  dq_overwritten,      ///< dQ of a set of keys replaces that of the one before
  gqa_modulo,          ///< query head h reads KV head h mod Hkv
  first_head_only,     ///< dK and dV come from the first query head of each group
  neighbour_kv_heads,  ///< dK and dV of a KV head go to the next one
};

/// values (rows, heads, width): head `from(h)` becomes head h.
template <class T, class From>
void permute_heads(std::vector<T>& values, int64_t heads, int64_t width, const From& from) {
  const std::vector<T> old = values;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t head = at / width % heads;
    values[i] = old[at + (from(head) - head) * width];
  }
}

template <class T>
class BackwardMutant final : public CpuEngine<T> {
 public:
  BackwardMutant(BackwardFault fault, const RankPlan& plan, const AttentionShape& shape,
                 const T& scale, const AttentionOptions& options)
      : CpuEngine<T>(plan, shape, scale, options), fault_(fault) {}

  void load_gradient(const T* d_o) override {
    CpuEngine<T>::load_gradient(d_o);
    if (fault_ == BackwardFault::ones_upstream) {
      std::fill(d_o_.begin(), d_o_.end(), T(1));
    } else if (fault_ == BackwardFault::first_upstream) {
      for (size_t i = this->q_width(); i < d_o_.size(); ++i) {
        d_o_[i] = d_o_[i % this->q_width()];
      }
    }
  }

  const std::vector<T>& dk() const override {
    dk_ = CpuEngine<T>::dk();
    if (fault_ == BackwardFault::neighbour_kv_heads) {
      to_next_head(dk_);
    }
    for (T& x : dk_) {
      x = fault_ == BackwardFault::dk_one_percent     ? T(x * T(101) / T(100))
          : fault_ == BackwardFault::dk_without_scale ? T(x / scale_)
                                                      : x;
    }
    return dk_;
  }

  const std::vector<T>& dv() const override {
    dv_ = CpuEngine<T>::dv();
    if (fault_ == BackwardFault::neighbour_kv_heads) {
      to_next_head(dv_);
    } else if (fault_ == BackwardFault::dv_one_element && plan_.rank == 0) {
      const auto at = std::find_if(dv_.begin(), dv_.end(), [](const T& x) { return x != T(0); });
      if (at != dv_.end()) {
        *at = *at * T(21) / T(20);
      }
    }
    return dv_;
  }

 protected:
  void attend_pass(const KeyPass& pass, int buffer, int state) override {
    if (fault_ != BackwardFault::gqa_modulo) {
      return CpuEngine<T>::attend_pass(pass, buffer, state);
    }
    with_modulo_heads({{&q_, shape_.head_dim}, {&o_[state], shape_.head_dim}, {&lse_[state], 1}},
                      [&] { CpuEngine<T>::attend_pass(pass, buffer, state); });
  }

  void attend_pass_backward(const KeyPass& pass, int buffer) override {
    switch (fault_) {
      case BackwardFault::partial_delta:
      case BackwardFault::partial_lse:
        return backward_from_part(pass, buffer);
      case BackwardFault::dq_overwritten: {
        const int64_t first = pass.rows.begin * this->q_width();
        std::fill_n(dq_.begin() + first, pass.rows.size() * this->q_width(), T(0));
        return CpuEngine<T>::attend_pass_backward(pass, buffer);
      }
      case BackwardFault::gqa_modulo: {
        const int64_t d = shape_.head_dim;
        return with_modulo_heads({{&q_, d}, {&o_[0], d}, {&lse_[0], 1}, {&d_o_, d}, {&dq_, d}},
                                 [&] { CpuEngine<T>::attend_pass_backward(pass, buffer); });
      }
      case BackwardFault::first_head_only:
        return backward_of_first_heads(pass, buffer);
      default:
        return CpuEngine<T>::attend_pass_backward(pass, buffer);
    }
  }

 private:
  using CpuEngine<T>::d_keys_;
  using CpuEngine<T>::d_o_;
  using CpuEngine<T>::d_values_;
  using CpuEngine<T>::dq_;
  using CpuEngine<T>::lse_;
  using CpuEngine<T>::o_;
  using CpuEngine<T>::plan_;
  using CpuEngine<T>::q_;
  using CpuEngine<T>::scale_;
  using CpuEngine<T>::shape_;

  /// An array of query heads and the width of one.
  struct Heads {
    std::vector<T>* values;
    int64_t width;
  };

  /// Runs `compute` with query heads put where a kernel that reads KV head h / group reads head
  /// h mod Hkv instead.
  template <class Compute>
  void with_modulo_heads(const std::vector<Heads>& arrays, const Compute& compute) {
    const int64_t group = shape_.group();
    const int64_t kv_heads = shape_.kv_heads;
    for (const Heads& a : arrays) {
      permute_heads(*a.values, shape_.q_heads, a.width,
                    [&](int64_t h) { return h % group * kv_heads + h / group; });
    }
    compute();
    for (const Heads& a : arrays) {
      permute_heads(*a.values, shape_.q_heads, a.width,
                    [&](int64_t h) { return h % kv_heads * group + h / kv_heads; });
    }
  }

  void to_next_head(std::vector<T>& gradient) const {
    permute_heads(gradient, shape_.kv_heads, shape_.head_dim,
                  [&](int64_t h) { return (h + 1) % shape_.kv_heads; });
  }

  void backward_from_part(const KeyPass& pass, int buffer) {
    const std::vector<T> o = o_[0];
    const std::vector<T> lse = lse_[0];
    std::fill(o_[0].begin(), o_[0].end(), T(0));
    std::fill(lse_[0].begin(), lse_[0].end(), LogDomain<T>::empty());
    CpuEngine<T>::attend_pass(pass, buffer, 0);
    if (fault_ == BackwardFault::partial_delta) {
      lse_[0] = lse;
    } else {
      o_[0] = o;
    }
    CpuEngine<T>::attend_pass_backward(pass, buffer);
    o_[0] = o;
    lse_[0] = lse;
  }

  /// dQ of all heads; dK and dV of the heads whose index in their group is 0.
  void backward_of_first_heads(const KeyPass& pass, int buffer) {
    const std::vector<T> d_keys = d_keys_[buffer];
    const std::vector<T> d_values = d_values_[buffer];
    CpuEngine<T>::attend_pass_backward(pass, buffer);
    d_keys_[buffer] = d_keys;
    d_values_[buffer] = d_values;
    const std::vector<T> dq = dq_;
    const std::vector<T> d_o = d_o_;
    for (size_t i = 0; i < d_o_.size(); ++i) {
      if (static_cast<int64_t>(i) / shape_.head_dim % shape_.group() != 0) {
        d_o_[i] = T(0);
      }
    }
    CpuEngine<T>::attend_pass_backward(pass, buffer);
    d_o_ = d_o;
    dq_ = dq;
  }

  BackwardFault fault_;
  mutable std::vector<T> dk_, dv_;
};

}  // namespace bdlm
