#include "conformance/judge/bounds.h"

#include <numeric>

#include "reference/base/error.h"

namespace bdlm {
namespace {

void check_input(const char* tensor, const ByStream<double>& values, size_t size, Dtype dtype) {
  for (int s = 0; s < 2; ++s) {
    const char* stream = name(static_cast<Stream>(s));
    require(values[s].size() == size, "the ", stream, " ", tensor, " has ", values[s].size(),
            " elements; its shape has ", size);
    for (size_t i = 0; i < size; ++i) {
      const double x = values[s][i];
      require(std::isfinite(x) && round_to(x, dtype) == x, "element ", i, " of the ", stream, " ",
              tensor, " is ", x, "; allowed are finite numbers of ", name(dtype));
    }
  }
}

void allocate(ExpectedTensor& tensor, size_t size, int64_t channels, const Contract& contract,
              std::initializer_list<Dtype> sites) {
  tensor.channels = channels;
  for (auto* values : {&tensor.value, &tensor.bound, &tensor.deviation}) {
    for (auto& stream : *values) {
      stream.assign(size, 0);
    }
  }
  tensor.accumulate_unit = unit_roundoff(contract.accumulate);
  tensor.unit = tensor.accumulate_unit;
  for (const Dtype site : sites) {
    tensor.unit = std::max(tensor.unit, unit_roundoff(site));
  }
}

/// Whether some row's state is merged.
bool merges(const Decomposition& decomposition) {
  for (const auto& stream : decomposition.parts) {
    for (const auto& parts : stream) {
      if (!parts.empty() && parts.back().part > 0) {
        return true;
      }
    }
  }
  return false;
}

/// One query row and head at a time.
class RowBounds {
 public:
  RowBounds(const AttentionProblem<double>& problem, const Contract& contract,
            ExpectedAttention& expected)
      : p_(problem),
        contract_(contract),
        model_(contract, problem.shape.head_dim),
        d_(problem.shape.head_dim),
        expected_(expected) {
    for (auto* sum : {&terms_, &relative_, &squares_, &size_, &merge_, &merge_squares_, &error_,
                      &variance_, &pk_}) {
      sum->resize(d_);
    }
  }

  RowTerms run(const std::vector<KeyPart>& parts, int stream, int64_t row, int64_t head) {
    row_ = {};
    at_ = (row * p_.shape.q_heads + head) * d_;
    q_ = &p_.q[stream][at_];
    d_o_ = p_.d_o[stream].empty() ? nullptr : &p_.d_o[stream][at_];
    stream_ = stream;
    const int64_t lse_at = row * p_.shape.q_heads + head;
    if (parts.empty()) {
      expected_.lse.value[stream][lse_at] = -std::numeric_limits<double>::infinity();
      return row_;
    }
    collect(parts, head);
    softmax();
    expected_.lse.value[stream][lse_at] = row_.z;
    // |dz| <= sum p e + min(n, 4 sqrt(n)) u: the scores, z itself and its sum.
    const double steps = model_.steps(row_.keys);
    expected_.lse.bound[stream][lse_at] =
        mean_score_error_ +
        std::min(steps, limits::lse_chain_deviations * std::sqrt(steps)) * model_.u();
    expected_.lse.deviation[stream][lse_at] = std::sqrt(row_.z_variance);
    output();
    if (d_o_ != nullptr) {
      delta();
      query_gradient();
    }
    return row_;
  }

 private:
  struct Key {
    const double* k;
    const double* v;
    int64_t part;
    PairTerms terms;
    double p;
  };

  void collect(const std::vector<KeyPart>& parts, int64_t head) {
    keys_.clear();
    const int64_t kv_head = head / p_.shape.group();
    for (const KeyPart& part : parts) {
      const int s = static_cast<int>(part.stream);
      for (int64_t j = part.keys.begin; j < part.keys.end; ++j) {
        const int64_t key = (j * p_.shape.kv_heads + kv_head) * d_;
        const double* k = &p_.k[s][key];
        const double* v = &p_.v[s][key];
        keys_.push_back({k, v, part.part, pair_terms(d_, p_.scale, q_, k, v, d_o_), 0});
      }
    }
    row_.keys = static_cast<int64_t>(keys_.size());
    row_.merges = static_cast<double>(parts.back().part);
  }

  /// p and z, with z's errors.
  void softmax() {
    double most = -std::numeric_limits<double>::infinity();
    for (const Key& key : keys_) {
      most = std::max(most, key.terms.score);
    }
    double sum = 0;
    for (Key& key : keys_) {
      key.p = std::exp(key.terms.score - most);
      sum += key.p;
    }
    row_.z = most + std::log(sum);
    mean_score_error_ = 0;
    row_.z_variance = 0;
    for (Key& key : keys_) {
      key.p /= sum;
      mean_score_error_ += key.p * model_.score_error(key.terms, row_);
      row_.z_variance += key.p * key.p * model_.score_variance(key.terms, row_);
    }
    // sum p e + c(n) u
    row_.z_error = mean_score_error_ + model_.chain(row_.keys) * model_.u();
    // sum p^2 var(s) + kappa u^2 (1 + merges) (z^2 + 4^2) + kappa u^2 n / 2
    row_.z_variance += ErrorModel::variance(model_.u()) * (1 + row_.merges) *
                           (row_.z * row_.z + limits::exp_roundings * limits::exp_roundings) +
                       model_.chain_variance(row_.keys);
  }

  /// Weighted partial results w_i O_i = sum over part i of p v, and their sums as merges proceed:
  /// each is rounded to the partial format, but the last sum, which is the output.
  void merge_terms() {
    std::fill(merge_.begin(), merge_.end(), 0);
    std::fill(merge_squares_.begin(), merge_squares_.end(), 0);
    if (row_.merges == 0 || model_.site(contract_.partial_o) == 0) {
      return;
    }
    std::vector<double> part(d_, 0);
    std::vector<double> state(d_, 0);
    const int64_t last = keys_.back().part;
    for (size_t j = 0; j < keys_.size(); ++j) {
      for (int64_t c = 0; c < d_; ++c) {
        part[c] += keys_[j].p * keys_[j].v[c];
      }
      const int64_t number = keys_[j].part;
      if (j + 1 < keys_.size() && keys_[j + 1].part == number) {
        continue;
      }
      for (int64_t c = 0; c < d_; ++c) {
        state[c] += part[c];
        const bool stored = number > 0 && number < last;
        merge_[c] += std::abs(part[c]) + (stored ? std::abs(state[c]) : 0);
        merge_squares_[c] += part[c] * part[c] + (stored ? state[c] * state[c] : 0);
        part[c] = 0;
      }
    }
  }

  void output() {
    double* o = &expected_.o.value[stream_][at_];
    for (auto* sum : {&terms_, &relative_, &squares_, &size_}) {
      std::fill(sum->begin(), sum->end(), 0);
    }
    for (const Key& key : keys_) {
      const double relative = model_.probability_error(key.terms, row_);
      for (int64_t c = 0; c < d_; ++c) {
        const double term = key.p * std::abs(key.v[c]);
        o[c] += key.p * key.v[c];
        terms_[c] += term;
        relative_[c] += term * relative;
        squares_[c] += term * term;
        size_[c] += std::abs(key.v[c]);
      }
    }
    merge_terms();
    std::fill(variance_.begin(), variance_.end(), 0);
    const double tiny_p = ErrorModel::tiny_variance(contract_.p);
    for (const Key& key : keys_) {
      // A score's error moves O along p (v - O), as z follows the scores.
      const double weight = key.p * key.p * model_.score_variance(key.terms, row_);
      for (int64_t c = 0; c < d_; ++c) {
        variance_[c] +=
            weight * (key.v[c] - o[c]) * (key.v[c] - o[c]) + tiny_p * key.v[c] * key.v[c];
      }
    }
    const double u = model_.u();
    const double u_p = model_.site(contract_.p);
    const double u_part = model_.site(contract_.partial_o);
    const double u_o = model_.site(contract_.o);
    const double chain = model_.chain(row_.keys) * u;
    for (int64_t c = 0; c < d_; ++c) {
      // sum p |v| (u_P + (exp(2e) - 1) + c u) + tiny_P sum |v| + u_part sum |weighted partial|
      double bound = (u_p + chain) * terms_[c] + relative_[c] +
                     ErrorModel::tiny(contract_.p) * size_[c] + u_part * merge_[c] +
                     row_.merges * ErrorModel::tiny(contract_.partial_o);
      // + u_out (|o| + all that) + tiny_out
      bound += u_o * (std::abs(o[c]) + bound) + ErrorModel::tiny(contract_.o);
      expected_.o.bound[stream_][at_ + c] = bound;
      // kappa u_P^2 sum p^2 v^2 + sum p^2 var(s) (v - o)^2 + the sum's own
      double variance = ErrorModel::variance(u_p) * squares_[c] + variance_[c] +
                        model_.chain_variance(row_.keys) * (squares_[c] + o[c] * o[c]);
      // + kappa u_part^2 sum (weighted partial)^2 + kappa u_out^2 o^2
      variance += ErrorModel::variance(u_part) * merge_squares_[c] +
                  ErrorModel::variance(u_o) * o[c] * o[c] + ErrorModel::tiny_variance(contract_.o) +
                  row_.merges * ErrorModel::tiny_variance(contract_.partial_o);
      // + merges kappa u^2 (z^2 + 4^2) o^2: the weights of merges
      variance += row_.merges * ErrorModel::variance(u) *
                  (row_.z * row_.z + limits::exp_roundings * limits::exp_roundings) *
                  (squares_[c] + o[c] * o[c]);
      expected_.o.deviation[stream_][at_ + c] = std::sqrt(variance);
    }
  }

  /// delta = sum dO O, from O as it is stored.
  void delta() {
    const double* o = &expected_.o.value[stream_][at_];
    const double u = model_.u();
    const double u_p = model_.site(contract_.p);
    const double u_o = model_.site(contract_.o);
    const double u_part = model_.site(contract_.partial_o);
    const double tiny = ErrorModel::tiny(contract_.p);
    double error = 0;
    double variance = 0;
    for (int64_t c = 0; c < d_; ++c) {
      const double term = d_o_[c] * o[c];
      row_.delta += term;
      // u_O sum |dO o| (0 where O is not rounded) + u_part sum |dO| sum |weighted partial|
      error += u_o * std::abs(term) +
               std::abs(d_o_[c]) * (u_part * merge_[c] + ErrorModel::tiny(contract_.o));
      variance += ErrorModel::variance(u_o) * term * term +
                  d_o_[c] * d_o_[c] *
                      (ErrorModel::variance(u_part) * merge_squares_[c] +
                       ErrorModel::tiny_variance(contract_.o));
    }
    const double sums = (model_.d() + model_.chain(row_.keys)) * u;
    for (const Key& key : keys_) {
      const PairTerms& t = key.terms;
      // + sum p |dp| (u_P + (exp(2e) - 1)) + (D + c) u sum p A
      error += key.p * std::abs(t.dp) * (u_p + model_.probability_error(t, row_)) +
               sums * key.p * t.dp_terms + tiny * std::abs(t.dp);
    }
    for (const Key& key : keys_) {
      const PairTerms& t = key.terms;
      const double apart = t.dp - row_.delta;
      // sum p^2 (kappa u_P^2 dp^2 + var(s) (dp - delta)^2) + kappa u^2 (D + n) / 2 sum p^2 dO^2 v^2
      variance +=
          key.p * key.p *
              (ErrorModel::variance(u_p) * t.dp * t.dp +
               model_.score_variance(t, row_) * apart * apart +
               (ErrorModel::variance(u) * model_.d() / 2 + model_.chain_variance(row_.keys)) *
                   t.dp_squares) +
          ErrorModel::tiny_variance(contract_.p) * t.dp * t.dp;
    }
    row_.delta_error = error;
    row_.delta_variance = variance;
  }

  void query_gradient() {
    double* dq = &expected_.dq.value[stream_][at_];
    for (auto* sum : {&squares_, &error_, &variance_, &pk_}) {
      std::fill(sum->begin(), sum->end(), 0);
    }
    const double chain = model_.chain(row_.keys) * model_.u();
    for (const Key& key : keys_) {
      const double ds = p_.scale * key.p * (key.terms.dp - row_.delta);
      // H_dS |k| + c u |ds k|
      const double error =
          model_.ds_error(p_.scale, key.p, ds, key.terms, row_) + chain * std::abs(ds);
      const double variance = model_.ds_variance(p_.scale, key.p, ds, key.terms, row_);
      for (int64_t c = 0; c < d_; ++c) {
        dq[c] += ds * key.k[c];
        squares_[c] += ds * key.k[c] * ds * key.k[c];
        error_[c] += error * std::abs(key.k[c]);
        variance_[c] += variance * key.k[c] * key.k[c];
        pk_[c] += p_.scale * key.p * key.k[c];
      }
    }
    const double u_out = model_.site(contract_.gradient);
    for (int64_t c = 0; c < d_; ++c) {
      expected_.dq.bound[stream_][at_ + c] =
          error_[c] + u_out * (std::abs(dq[c]) + error_[c]) + ErrorModel::tiny(contract_.gradient);
      // sum var(dS) k^2 + (scale sum p k)^2 VarD + dq^2 (var(z) + kappa u_out^2) + the sum's own
      const double variance = variance_[c] + pk_[c] * pk_[c] * row_.delta_variance +
                              dq[c] * dq[c] * (row_.z_variance + ErrorModel::variance(u_out)) +
                              model_.chain_variance(row_.keys) * (squares_[c] + dq[c] * dq[c]) +
                              ErrorModel::tiny_variance(contract_.gradient);
      expected_.dq.deviation[stream_][at_ + c] = std::sqrt(variance);
    }
  }

  const AttentionProblem<double>& p_;
  const Contract& contract_;
  ErrorModel model_;
  const int64_t d_;
  ExpectedAttention& expected_;
  // The row at hand.
  RowTerms row_;
  int stream_ = 0;
  int64_t at_ = 0;
  const double* q_ = nullptr;
  const double* d_o_ = nullptr;
  double mean_score_error_ = 0;
  std::vector<Key> keys_;
  // Sums over its keys, by channel.
  std::vector<double> terms_, relative_, squares_, size_, merge_, merge_squares_, error_, variance_,
      pk_;
};

}  // namespace

RowTermsByStream bound_rows(const AttentionProblem<double>& problem,
                            const Decomposition& decomposition, const Contract& contract,
                            ExpectedAttention& expected) {
  RowTermsByStream rows;
  const int64_t heads = problem.shape.q_heads;
  for (int s = 0; s < 2; ++s) {
    rows[s].resize(problem.length * heads);
#pragma omp parallel
    {
      RowBounds bounds(problem, contract, expected);
#pragma omp for schedule(dynamic, 8)
      for (int64_t row = 0; row < problem.length; ++row) {
        for (int64_t head = 0; head < heads; ++head) {
          rows[s][row * heads + head] = bounds.run(decomposition.parts[s][row], s, row, head);
        }
      }
    }
  }
  return rows;
}

ExpectedAttention expected_attention(const AttentionProblem<double>& problem,
                                     const Decomposition& decomposition, const Contract& contract) {
  const AttentionShape& shape = problem.shape;
  require(shape.kv_heads >= 1 && shape.head_dim >= 1 && shape.q_heads >= 1 &&
              shape.q_heads % shape.kv_heads == 0,
          "the shape has ", shape.q_heads, " query heads, ", shape.kv_heads, " KV heads and ",
          shape.head_dim, " channels; allowed are positive numbers, query heads a multiple of KV ",
          "heads");
  require(problem.length == decomposition.sequence.length(), "the problem has ", problem.length,
          " positions, its decomposition ", decomposition.sequence.length());
  require(std::isfinite(problem.scale), "the scale is ", problem.scale, "; it must be finite");
  const size_t q_size = problem.length * shape.q_heads * shape.head_dim;
  const size_t kv_size = problem.length * shape.kv_heads * shape.head_dim;
  check_input("Q", problem.q, q_size, contract.input);
  check_input("K", problem.k, kv_size, contract.input);
  check_input("V", problem.v, kv_size, contract.input);
  const bool backward = !problem.d_o[0].empty() || !problem.d_o[1].empty();
  if (backward) {
    check_input("dO", problem.d_o, q_size, contract.input);
  }
  const bool merged = merges(decomposition);
  const bool reduced =
      decomposition.gradient_return != std::array{GradientReturn::local, GradientReturn::local};
  const Dtype partial = merged ? contract.partial_o : contract.accumulate;
  const Dtype travel = reduced ? contract.reduce : contract.accumulate;
  ExpectedAttention expected;
  allocate(expected.o, q_size, shape.head_dim, contract, {contract.p, contract.o, partial});
  allocate(expected.lse, q_size / shape.head_dim, 1, contract, {});
  if (backward) {
    // dQ and dK feel O through delta.
    allocate(expected.dq, q_size, shape.head_dim, contract,
             {contract.ds, contract.gradient, contract.p, contract.o, partial});
    allocate(expected.dk, kv_size, shape.head_dim, contract,
             {contract.ds, contract.gradient, contract.p, contract.o, partial, travel});
    allocate(expected.dv, kv_size, shape.head_dim, contract,
             {contract.p, contract.gradient, travel});
  }
  const RowTermsByStream rows = bound_rows(problem, decomposition, contract, expected);
  if (backward) {
    bound_keys(problem, decomposition, contract, rows, expected);
  }
  return expected;
}

}  // namespace bdlm
