#include "conformance/suites/rounding_engine.h"

#include <cmath>

namespace bdlm {

std::vector<double> RoundingEngine::rounded(const double* values, int64_t count) const {
  std::vector<double> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(round_to(values[i], contract_.input));
  }
  return out;
}

const std::vector<double>& RoundingEngine::rounded(const std::vector<double>& values,
                                                   std::vector<double>& out) const {
  out = values;
  for (double& x : out) {
    x = round_to(x, contract_.gradient);
  }
  return out;
}

void RoundingEngine::load(const double* q, const double* k, const double* v) {
  const int64_t rows = plan_.rows.size();
  CpuEngine<double>::load(rounded(q, rows * q_width()).data(), rounded(k, rows * kv_width()).data(),
                          rounded(v, rows * kv_width()).data());
}

void RoundingEngine::load_gradient(const double* d_o) {
  CpuEngine<double>::load_gradient(rounded(d_o, plan_.rows.size() * q_width()).data());
}

double RoundingEngine::score(int64_t row, int64_t head, int64_t key, int buffer) const {
  const int64_t d = shape_.head_dim;
  const double* q = &q_[row * q_width() + head * d];
  const double* k = &keys_[buffer][key * kv_width() + head / shape_.group() * d];
  double sum = 0;
  for (int64_t c = 0; c < d; ++c) {
    sum += q[c] * k[c];
  }
  return scale_ * sum;
}

void RoundingEngine::attend_pass(const KeyPass& pass, int buffer, int state) {
  const int64_t d = shape_.head_dim;
  std::vector<double> o(d);
  for (int64_t row = pass.rows.begin; row < pass.rows.end; ++row) {
    const Interval& keys = pass.keys[row - pass.rows.begin];
    for (int64_t head = 0; head < shape_.q_heads && !keys.empty(); ++head) {
      double most = -std::numeric_limits<double>::infinity();
      for (int64_t key = keys.begin; key < keys.end; ++key) {
        most = std::max(most, score(row, head, key, buffer));
      }
      double sum = 0;
      std::fill(o.begin(), o.end(), 0);
      for (int64_t key = keys.begin; key < keys.end; ++key) {
        const double p = std::exp(score(row, head, key, buffer) - most);
        sum += p;
        const double* v = &values_[buffer][key * kv_width() + head / shape_.group() * d];
        for (int64_t c = 0; c < d; ++c) {
          o[c] += round_to(p, contract_.p) * v[c];
        }
      }
      for (double& x : o) {
        x /= sum;
      }
      double* to = &o_.at(state)[row * q_width() + head * d];
      bdlm::merge<double>(d, to, lse_[state][row * shape_.q_heads + head], o.data(),
                          most + std::log(sum));
      for (int64_t c = 0; c < d; ++c) {
        to[c] = round_to(to[c], contract_.o);
      }
    }
  }
}

void RoundingEngine::attend_pass_backward(const KeyPass& pass, int buffer) {
  const int64_t d = shape_.head_dim;
  for (int64_t row = pass.rows.begin; row < pass.rows.end; ++row) {
    const Interval& keys = pass.keys[row - pass.rows.begin];
    for (int64_t head = 0; head < shape_.q_heads && !keys.empty(); ++head) {
      const int64_t at = row * q_width() + head * d;
      double delta = 0;
      for (int64_t c = 0; c < d; ++c) {
        delta += d_o_[at + c] * o_[0][at + c];
      }
      for (int64_t key = keys.begin; key < keys.end; ++key) {
        const double p =
            std::exp(score(row, head, key, buffer) - lse_[0][row * shape_.q_heads + head]);
        const int64_t k = key * kv_width() + head / shape_.group() * d;
        double dp = 0;
        for (int64_t c = 0; c < d; ++c) {
          dp += d_o_[at + c] * values_[buffer][k + c];
        }
        const double ds = scale_ * round_to(p * (dp - delta), contract_.ds);
        for (int64_t c = 0; c < d; ++c) {
          dq_[at + c] += ds * keys_[buffer][k + c];
          d_keys_[buffer][k + c] += ds * q_[at + c];
          d_values_[buffer][k + c] += round_to(p, contract_.p) * d_o_[at + c];
        }
      }
    }
  }
}

}  // namespace bdlm
