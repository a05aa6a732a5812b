#include "conformance/suites/double_bound.h"

#include "conformance/judge/limits.h"

namespace bdlm {
namespace {

/// A key that a row sees.
struct Key {
  int stream;
  int64_t row;
};

class Bounds {
 public:
  Bounds(const Sequence& sequence, const LayerRule& rule, const AttentionProblem<double>& problem)
      : sequence_(sequence),
        rule_(rule),
        p_(problem),
        d_(problem.shape.head_dim),
        group_(problem.shape.q_heads / problem.shape.kv_heads) {}

  DoubleBound run() {
    for (int s = 0; s < 2; ++s) {
      a_.o[s].assign(p_.q[s].size(), 0);
      a_.dq[s].assign(p_.q[s].size(), 0);
      a_.dk[s].assign(p_.k[s].size(), 0);
      a_.dv[s].assign(p_.k[s].size(), 0);
      a_.lse[s].assign(p_.q[s].size() / d_, 1);
      rows_of_key_[s].assign(p_.length, 0);
    }
    for (int s = 0; s < 2; ++s) {
      for (int64_t row = 0; row < p_.length; ++row) {
        const std::vector<Key> keys = keys_of(s, row);
        chain_ = std::max(chain_, static_cast<int64_t>(keys.size()));
        for (const Key& key : keys) {
          ++rows_of_key_[key.stream][key.row];
        }
        for (int64_t h = 0; h < p_.shape.q_heads; ++h) {
          add_row(s, row, h, keys);
        }
      }
    }
    for (const auto& counts : rows_of_key_) {
      for (const int64_t n : counts) {
        chain_ = std::max(chain_, n * group_);
      }
    }
    chain_ = std::max(chain_, d_);
    const double factor =
        limits::unit_f64 * (limits::double_constant + limits::double_per_score * largest_score_ +
                            static_cast<double>(chain_));
    for (auto* tensor : {&a_.o, &a_.lse, &a_.dq, &a_.dk, &a_.dv}) {
      for (auto& stream : *tensor) {
        for (double& x : stream) {
          x *= factor;
        }
      }
    }
    return std::move(a_);
  }

 private:
  std::vector<Key> keys_of(int s, int64_t row) const {
    std::vector<Key> keys;
    for (const Stream stream : {Stream::clean, Stream::corrupted}) {
      const Interval seen = visible(sequence_, rule_, static_cast<Stream>(s), row, stream);
      for (int64_t j = seen.begin; j < seen.end; ++j) {
        keys.push_back({static_cast<int>(stream), j});
      }
    }
    return keys;
  }

  /// The sums of absolute terms of one row and query head.
  void add_row(int s, int64_t row, int64_t h, const std::vector<Key>& keys) {
    if (keys.empty()) {
      return;
    }
    const int64_t at = (row * p_.shape.q_heads + h) * d_;
    const double* q = &p_.q[s][at];
    const double* d_o = &p_.d_o[s][at];
    std::vector<double> score(keys.size(), 0);
    double most = -std::numeric_limits<double>::infinity();
    for (size_t j = 0; j < keys.size(); ++j) {
      double absolute = 0;
      const double* k = &p_.k[keys[j].stream][key_at(keys[j], h)];
      for (int64_t c = 0; c < d_; ++c) {
        score[j] += p_.scale * q[c] * k[c];
        absolute += std::abs(p_.scale * q[c] * k[c]);
      }
      largest_score_ = std::max(largest_score_, absolute);
      most = std::max(most, score[j]);
    }
    double sum = 0;
    for (double& x : score) {
      x = std::exp(x - most);
      sum += x;
    }
    double* o = &a_.o[s][at];
    for (size_t j = 0; j < keys.size(); ++j) {
      score[j] /= sum;  // now the probability
      const double* v = &p_.v[keys[j].stream][key_at(keys[j], h)];
      double* dv = &a_.dv[keys[j].stream][key_at(keys[j], h)];
      for (int64_t c = 0; c < d_; ++c) {
        o[c] += score[j] * std::abs(v[c]);
        dv[c] += score[j] * std::abs(d_o[c]);
      }
    }
    double delta = 0;
    for (int64_t c = 0; c < d_; ++c) {
      delta += std::abs(d_o[c]) * o[c];
    }
    for (size_t j = 0; j < keys.size(); ++j) {
      const double* v = &p_.v[keys[j].stream][key_at(keys[j], h)];
      const double* k = &p_.k[keys[j].stream][key_at(keys[j], h)];
      double dp = 0;
      for (int64_t c = 0; c < d_; ++c) {
        dp += std::abs(d_o[c] * v[c]);
      }
      const double ds = p_.scale * score[j] * (dp + delta);
      for (int64_t c = 0; c < d_; ++c) {
        a_.dq[s][at + c] += ds * std::abs(k[c]);
        a_.dk[keys[j].stream][key_at(keys[j], h) + c] += ds * std::abs(q[c]);
      }
    }
  }

  int64_t key_at(const Key& key, int64_t h) const {
    return (key.row * p_.shape.kv_heads + h / group_) * d_;
  }

  const Sequence& sequence_;
  const LayerRule& rule_;
  const AttentionProblem<double>& p_;
  const int64_t d_;
  const int64_t group_;
  DoubleBound a_;
  std::array<std::vector<int64_t>, 2> rows_of_key_;
  double largest_score_ = 0;
  int64_t chain_ = 1;
};

}  // namespace

DoubleBound double_bound(const Sequence& sequence, const LayerRule& rule,
                         const AttentionProblem<double>& problem) {
  return Bounds(sequence, rule, problem).run();
}

}  // namespace bdlm
