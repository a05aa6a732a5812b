#pragma once
// Attention written from its definition, for tests: one softmax a row over all keys that it sees.

#include <cmath>
#include <map>
#include <vector>

#include "reference/layout/visibility.h"
#include "reference/model/attention_layer.h"
#include "reference/model/dense_config.h"

namespace bdlm::test {

/// Both streams of one sequence on one rank: L corrupted rows, then L clean rows.
template <class T>
class NaiveAttention final : public AttentionLayer<T> {
 public:
  NaiveAttention(const DenseConfig& config, const Sequence& sequence) : config_(config) {
    const int64_t length = sequence.length();
    for (const LayerRule& rule : config.rules) {
      std::vector<std::vector<int64_t>>& keys = keys_.emplace_back();
      for (const Stream query : {Stream::corrupted, Stream::clean}) {
        for (int64_t row = 0; row < length; ++row) {
          std::vector<int64_t>& seen = keys.emplace_back();
          for (const Stream key : {Stream::corrupted, Stream::clean}) {
            const Interval interval = visible(sequence, rule, query, row, key);
            for (int64_t j = interval.begin; j < interval.end; ++j) {
              seen.push_back(key == Stream::clean ? length + j : j);
            }
          }
        }
      }
    }
  }

  void forward(int64_t layer, bool keep, const T* q, const T* k, const T* v, T* o) override {
    const int64_t rows = static_cast<int64_t>(keys_[layer].size());
    std::fill(o, o + rows * q_width(), T(0));
    for_each_row(layer, q, k, [&](int64_t row, int64_t head, const std::vector<T>& p) {
      for (size_t j = 0; j < p.size(); ++j) {
        for (int64_t d = 0; d < config_.head_dim; ++d) {
          o[row * q_width() + head * config_.head_dim + d] += p[j] * v[kv(layer, row, head, j) + d];
        }
      }
    });
    if (keep) {
      kept_[layer] = {
          {q, q + rows * q_width()}, {k, k + rows * kv_width()}, {v, v + rows * kv_width()}};
    }
  }

  void backward(int64_t layer, const T* d_o, T* dq, T* dk, T* dv) override {
    const int64_t rows = static_cast<int64_t>(keys_[layer].size());
    const int64_t dim = config_.head_dim;
    const Kept kept = kept_.at(layer);
    kept_.erase(layer);
    std::fill(dq, dq + rows * q_width(), T(0));
    std::fill(dk, dk + rows * kv_width(), T(0));
    std::fill(dv, dv + rows * kv_width(), T(0));
    for_each_row(layer, kept.q.data(), kept.k.data(),
                 [&](int64_t row, int64_t head, const std::vector<T>& p) {
                   const int64_t at = row * q_width() + head * dim;
                   std::vector<T> dp(p.size(), T(0));
                   T mean(0);
                   for (size_t j = 0; j < p.size(); ++j) {
                     const int64_t key = kv(layer, row, head, j);
                     for (int64_t d = 0; d < dim; ++d) {
                       dp[j] += d_o[at + d] * kept.v[key + d];
                       dv[key + d] += p[j] * d_o[at + d];
                     }
                     mean += p[j] * dp[j];
                   }
                   for (size_t j = 0; j < p.size(); ++j) {
                     const int64_t key = kv(layer, row, head, j);
                     const T ds = p[j] * (dp[j] - mean) * scale();
                     for (int64_t d = 0; d < dim; ++d) {
                       dq[at + d] += ds * kept.k[key + d];
                       dk[key + d] += ds * kept.q[at + d];
                     }
                   }
                 });
  }

 private:
  struct Kept {
    std::vector<T> q, k, v;
  };

  int64_t q_width() const { return config_.q_heads * config_.head_dim; }
  int64_t kv_width() const { return config_.kv_heads * config_.head_dim; }
  T scale() const { return T(1 / std::sqrt(static_cast<double>(config_.head_dim))); }

  /// The offset of the j-th key or value that a row's head reads.
  int64_t kv(int64_t layer, int64_t row, int64_t head, size_t j) const {
    const int64_t kv_head = head / (config_.q_heads / config_.kv_heads);
    return keys_[layer][row][j] * kv_width() + kv_head * config_.head_dim;
  }

  /// Calls `visit` with the probabilities of every row and head that sees any key.
  template <class Visit>
  void for_each_row(int64_t layer, const T* q, const T* k, Visit visit) const {
    using std::exp;
    for (size_t row = 0; row < keys_[layer].size(); ++row) {
      for (int64_t head = 0; head < config_.q_heads && !keys_[layer][row].empty(); ++head) {
        std::vector<T> p(keys_[layer][row].size(), T(0));
        for (size_t j = 0; j < p.size(); ++j) {
          for (int64_t d = 0; d < config_.head_dim; ++d) {
            p[j] +=
                q[row * q_width() + head * config_.head_dim + d] * k[kv(layer, row, head, j) + d];
          }
        }
        // Scores of a test are of order 1: no maximum is needed.
        T sum(0);
        for (T& x : p) {
          x = exp(x * scale());
          sum += x;
        }
        for (T& x : p) {
          x = x / sum;
        }
        visit(row, head, p);
      }
    }
  }

  const DenseConfig config_;
  std::vector<std::vector<std::vector<int64_t>>> keys_;  // by layer and row: keys seen
  std::map<int64_t, Kept> kept_;
};

}  // namespace bdlm::test
