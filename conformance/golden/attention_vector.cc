// Attention vectors: one layer over both streams, every tensor with its stream as first axis.

#include "conformance/golden/golden_vector.h"
#include "reference/math/quad.h"
#include "reference/schedule/plan_builder.h"

namespace bdlm {
namespace {

/// The share of a sum's absolute terms below which 113 bits tell it from nothing no longer.
constexpr double cancelled = 0x1p-100;

struct QuadInputs {
  explicit QuadInputs(const AttentionProblem<double>& p) {
    for (int s = 0; s < 2; ++s) {
      q[s] = {p.q[s].begin(), p.q[s].end()};
      k[s] = {p.k[s].begin(), p.k[s].end()};
      v[s] = {p.v[s].begin(), p.v[s].end()};
      d_o[s] = {p.d_o[s].begin(), p.d_o[s].end()};
    }
  }
  ByStream<Quad> q, k, v, d_o;
};

/// One key of a row.
struct Key {
  int stream;
  int64_t at;  // of channel 0 in K and V
};

/// All rows of the query heads of one KV head.
class HeadInQuad {
 public:
  HeadInQuad(const AttentionProblem<double>& p, const Decomposition& decomposition,
             const QuadInputs& inputs, ExpectedAttention& expected, int64_t kv_head)
      : p_(p),
        decomposition_(decomposition),
        q_(inputs.q),
        k_(inputs.k),
        v_(inputs.v),
        d_o_(inputs.d_o),
        expected_(expected),
        kv_head_(kv_head),
        d_(p.shape.head_dim) {
    for (int s = 0; s < 2; ++s) {
      dk_[s].assign(p.length * d_, Quad(0));
      dv_[s] = dk_[s];
      dk_size_[s].assign(p.length * d_, 0);
    }
  }

  void run() {
    for (int s = 0; s < 2; ++s) {
      for (int64_t row = 0; row < p_.length; ++row) {
        for (int64_t g = 0; g < p_.shape.group(); ++g) {
          attend(s, row, kv_head_ * p_.shape.group() + g);
        }
      }
    }
    for (int s = 0; s < 2; ++s) {
      for (int64_t key = 0; key < p_.length; ++key) {
        for (int64_t c = 0; c < d_; ++c) {
          const int64_t to = (key * p_.shape.kv_heads + kv_head_) * d_ + c;
          expected_.dk.value[s][to] = settled(dk_[s][key * d_ + c], dk_size_[s][key * d_ + c]);
          expected_.dv.value[s][to] = static_cast<double>(dv_[s][key * d_ + c]);
        }
      }
    }
  }

 private:
  /// A sum, or 0 where it is nothing but the rounding errors of its terms, which cancel exactly.
  static double settled(const Quad& sum, double size) {
    const auto x = static_cast<double>(sum);
    return std::abs(x) <= cancelled * size ? 0 : x;
  }

  void attend(int s, int64_t row, int64_t head) {
    const auto& parts = decomposition_.parts[s][row];
    if (parts.empty()) {
      return;
    }
    keys_.clear();
    for (const KeyPart& part : parts) {
      for (int64_t j = part.keys.begin; j < part.keys.end; ++j) {
        keys_.push_back({static_cast<int>(part.stream), j});
      }
    }
    const int64_t lse_at = row * p_.shape.q_heads + head;
    const int64_t at = lse_at * d_;
    const Quad scale(p_.scale);
    weights_.clear();
    products_.clear();
    Quad most = -std::numeric_limits<Quad>::infinity();
    for (const Key& key : keys_) {
      const int64_t key_at = (key.at * p_.shape.kv_heads + kv_head_) * d_;
      Quad score(0);
      Quad dp(0);
      for (int64_t c = 0; c < d_; ++c) {
        score += q_[s][at + c] * k_[key.stream][key_at + c];
        dp += d_o_[s][at + c] * v_[key.stream][key_at + c];
      }
      weights_.push_back(scale * score);
      products_.push_back(dp);
      most = most < weights_.back() ? weights_.back() : most;
    }
    Quad sum(0);
    for (Quad& w : weights_) {
      w = exp(w - most);
      sum += w;
    }
    expected_.lse.value[s][lse_at] = static_cast<double>(most + log(sum));
    Quad delta(0);
    for (size_t j = 0; j < keys_.size(); ++j) {
      weights_[j] /= sum;
      delta += weights_[j] * products_[j];
    }
    o_.assign(d_, Quad(0));
    dq_size_.assign(d_, 0);
    dq_.assign(d_, Quad(0));
    for (size_t j = 0; j < keys_.size(); ++j) {
      const Key& key = keys_[j];
      const int64_t key_at = (key.at * p_.shape.kv_heads + kv_head_) * d_;
      const Quad& w = weights_[j];
      const Quad ds = scale * w * (products_[j] - delta);
      const auto size = static_cast<double>(abs(scale) * w * (abs(products_[j]) + abs(delta)));
      for (int64_t c = 0; c < d_; ++c) {
        o_[c] += w * v_[key.stream][key_at + c];
        dq_[c] += ds * k_[key.stream][key_at + c];
        dk_[key.stream][key.at * d_ + c] += ds * q_[s][at + c];
        dq_size_[c] += size * std::abs(p_.k[key.stream][key_at + c]);
        dk_size_[key.stream][key.at * d_ + c] += size * std::abs(p_.q[s][at + c]);
        dv_[key.stream][key.at * d_ + c] += w * d_o_[s][at + c];
      }
    }
    for (int64_t c = 0; c < d_; ++c) {
      expected_.o.value[s][at + c] = static_cast<double>(o_[c]);
      expected_.dq.value[s][at + c] = settled(dq_[c], dq_size_[c]);
    }
  }

  const AttentionProblem<double>& p_;
  const Decomposition& decomposition_;
  const ByStream<Quad>&q_, &k_, &v_, &d_o_;
  ExpectedAttention& expected_;
  const int64_t kv_head_, d_;
  std::vector<Key> keys_;
  std::vector<Quad> weights_, products_, o_, dq_;
  std::vector<double> dq_size_;
  ByStream<double> dk_size_;  // (L, D): sums of absolute terms
  ByStream<Quad> dk_, dv_;    // (L, D)
};

std::vector<double> both(const ByStream<double>& by_stream) {
  std::vector<double> out = by_stream[0];
  out.insert(out.end(), by_stream[1].begin(), by_stream[1].end());
  return out;
}

/// (2, L, 2, 2): what row i of a stream sees of each stream, [begin, end).
InputTensor intervals_of(const Sequence& sequence, const LayerRule& rule) {
  InputTensor out{"intervals", {2, sequence.length(), 2, 2}, DType::i64, {}};
  for (const Stream query : {Stream::clean, Stream::corrupted}) {
    for (int64_t row = 0; row < sequence.length(); ++row) {
      for (const Stream key : {Stream::clean, Stream::corrupted}) {
        const Interval keys = visible(sequence, rule, query, row, key);
        const bool none = keys.empty();
        out.values.push_back(none ? 0.0 : static_cast<double>(keys.begin));
        out.values.push_back(none ? 0.0 : static_cast<double>(keys.end));
      }
    }
  }
  return out;
}

}  // namespace

void evaluate_in_quad(const AttentionProblem<double>& problem, const Decomposition& decomposition,
                      ExpectedAttention& expected) {
  const QuadInputs inputs(problem);
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t head = 0; head < problem.shape.kv_heads; ++head) {
    HeadInQuad(problem, decomposition, inputs, expected, head).run();
  }
}

Decomposition decomposition_of(const AttentionVector& v) {
  const LayoutCase& layout = v.layout;
  if (layout.scheme == Scheme::monolithic) {
    return whole(layout.shape.sequence, layout.rule);
  }
  const std::vector<RankPlan> plans =
      build_plans(layout.shape.sequence, layout.ownership(), layout.rule);
  return of_plans(layout.shape.sequence, layout.rule, plans);
}

AttentionProblem<double> problem_of(const GoldenCase& c) {
  const auto& v = std::get<AttentionVector>(c.what);
  const Contract contract = builtin_contract(c.contract);
  AttentionProblem<double> p =
      attention_data<double>(v.heads, v.layout.shape.sequence.length(), v.data, c.seed);
  for (auto* tensor : {&p.q, &p.k, &p.v, &p.d_o}) {
    for (auto& stream : *tensor) {
      for (double& x : stream) {
        x = round_to(x, contract.input);
      }
    }
  }
  return p;
}

GoldenVector make_attention(const GoldenCase& c, Making making) {
  const auto& v = std::get<AttentionVector>(c.what);
  const Sequence& sequence = v.layout.shape.sequence;
  const Contract contract = builtin_contract(c.contract);
  const AttentionProblem<double> p = problem_of(c);
  const int64_t length = p.length;
  const int64_t d = v.heads.head_dim;
  const std::vector<int64_t> query_shape{2, length, v.heads.q_heads, d};
  const std::vector<int64_t> key_shape{2, length, v.heads.kv_heads, d};
  const DType dtype = file_dtype(contract.input);
  GoldenVector out;
  out.inputs = {{"q", query_shape, dtype, both(p.q)},
                {"k", key_shape, dtype, both(p.k)},
                {"v", key_shape, dtype, both(p.v)},
                {"d_o", query_shape, dtype, both(p.d_o)},
                intervals_of(sequence, v.layout.rule)};
  out.parameters = {{"scale", number_text(p.scale)}};
  if (making == Making::inputs) {
    return out;
  }
  const Decomposition decomposition = decomposition_of(v);
  ExpectedAttention expected = expected_attention(p, decomposition, contract);
  evaluate_in_quad(p, decomposition, expected);
  const auto add = [&](const char* name, const ExpectedTensor& t, std::vector<int64_t> shape) {
    out.outputs.push_back(
        {name, std::move(shape), both(t.value), both(t.bound), both(t.deviation)});
  };
  add("o", expected.o, query_shape);
  add("lse", expected.lse, {2, length, v.heads.q_heads});
  add("dq", expected.dq, query_shape);
  add("dk", expected.dk, key_shape);
  add("dv", expected.dv, key_shape);
  return out;
}

}  // namespace bdlm
