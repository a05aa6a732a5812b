#include "conformance/judge/emulated.h"

#include "conformance/judge/gradient_reduction.h"
#include "reference/base/error.h"
#include "reference/math/merge.h"

namespace bdlm {
namespace {

/// `A` is the format of sums: float or double.
template <class A>
class Pipeline {
 public:
  Pipeline(const AttentionProblem<double>& problem, const Decomposition& decomposition,
           const Contract& contract, const EmulatedFaults& faults)
      : p_(problem),
        decomposition_(decomposition),
        contract_(contract),
        faults_(faults),
        d_(problem.shape.head_dim),
        scale_(static_cast<A>(problem.scale)),
        backward_(!problem.d_o[0].empty()) {}

  AttentionOutputs run() {
    const int ranks = decomposition_.ranks;
    for (int s = 0; s < 2; ++s) {
      out_.o[s].assign(p_.q[s].size(), 0);
      out_.lse[s].assign(p_.q[s].size() / d_, -std::numeric_limits<double>::infinity());
      if (backward_) {
        out_.dq[s].assign(p_.q[s].size(), 0);
        out_.dk[s].assign(p_.k[s].size(), 0);
        out_.dv[s].assign(p_.k[s].size(), 0);
        dk_[s].assign(ranks, std::vector<A>(p_.k[s].size(), A(0)));
        dv_[s] = dk_[s];
      }
    }
#pragma omp parallel for schedule(dynamic)
    for (int64_t kv_head = 0; kv_head < p_.shape.kv_heads; ++kv_head) {
      const int64_t group = p_.shape.group();
      for (int s = 0; s < 2; ++s) {
        for (int64_t row = 0; row < p_.length; ++row) {
          for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
            this->row(s, row, h);
          }
        }
      }
    }
    if (backward_) {
      for (int s = 0; s < 2; ++s) {
        add_ranks(s, dk_[s], faults_.dk_gain, out_.dk[s]);
        add_ranks(s, dv_[s], faults_.dv_gain, out_.dv[s]);
      }
    }
    return std::move(out_);
  }

 private:
  struct Key {
    int stream;
    int64_t at;  // offset of its channels
    int64_t part;
    A score;
  };

  /// To the format of a site, where that is below the accumulation's.
  A site(A x, Dtype dtype) const {
    return site_unit(contract_, dtype) > 0
               ? static_cast<A>(round_to(static_cast<double>(x), dtype, faults_.rounding))
               : x;
  }

  void row(int s, int64_t row, int64_t head) {
    const int64_t at = (row * p_.shape.q_heads + head) * d_;
    const double* q = &p_.q[s][at];
    std::vector<Key> keys;
    for (const KeyPart& part : decomposition_.parts[s][row]) {
      const int t = static_cast<int>(part.stream);
      for (int64_t j = part.keys.begin; j < part.keys.end; ++j) {
        const auto& missing = faults_.missing_key;
        if (missing && static_cast<int>(missing->stream) == s && missing->row == row &&
            missing->key_stream == part.stream && missing->key == j) {
          continue;
        }
        const int64_t key = (j * p_.shape.kv_heads + head / p_.shape.group()) * d_;
        A sum(0);
        for (int64_t c = 0; c < d_; ++c) {
          sum += static_cast<A>(q[c]) * static_cast<A>(p_.k[t][key + c]);
        }
        keys.push_back({t, key, part.part, sum * scale_});
      }
    }
    if (keys.empty()) {
      return;
    }
    std::vector<A> o(d_, A(0));
    A z = -std::numeric_limits<A>::infinity();
    for (size_t begin = 0; begin < keys.size();) {
      size_t end = begin;
      while (end < keys.size() && keys[end].part == keys[begin].part) {
        ++end;
      }
      attend(keys, begin, end, end - begin < keys.size(), o, z);
      begin = end;
    }
    for (int64_t c = 0; c < d_; ++c) {
      o[c] = site(o[c] * static_cast<A>(faults_.o_gain), contract_.o);
      out_.o[s][at + c] = o[c];
    }
    out_.lse[s][at / d_] = z;
    if (backward_) {
      gradients(keys, s, row, at, o, z);
    }
  }

  /// Keys [begin, end) as one call, merged into the state (o, z).
  void attend(const std::vector<Key>& keys, size_t begin, size_t end, bool partial,
              std::vector<A>& o, A& z) const {
    A most = -std::numeric_limits<A>::infinity();
    for (size_t j = begin; j < end; ++j) {
      most = std::max(most, keys[j].score);
    }
    std::vector<A> part(d_, A(0));
    A sum(0);
    for (size_t j = begin; j < end; ++j) {
      const A weight = std::exp(keys[j].score - most);
      sum += weight;
      const A p = site(weight, contract_.p);
      for (int64_t c = 0; c < d_; ++c) {
        part[c] += p * static_cast<A>(p_.v[keys[j].stream][keys[j].at + c]);
      }
    }
    const Dtype stored = partial ? contract_.partial_o : contract_.accumulate;
    for (A& x : part) {
      x = site(x / sum, stored);
    }
    A part_z = most + std::log(sum);
    const bool first = z == -std::numeric_limits<A>::infinity();
    if (first || faults_.merge_by_average) {
      for (int64_t c = 0; c < d_; ++c) {
        o[c] = first ? part[c] : (o[c] + part[c]) / 2;
      }
      std::vector<A> ignored(1, A(0));
      merge_unchecked(1, ignored.data(), z, ignored.data(), part_z);
      return;
    }
    if (faults_.merge_by_rounded_lse) {
      const A exact = z;
      const A exact_part = part_z;
      z = static_cast<A>(round_to(static_cast<double>(z), Dtype::bf16));
      part_z = static_cast<A>(round_to(static_cast<double>(part_z), Dtype::bf16));
      merge_unchecked(d_, o.data(), z, part.data(), part_z);
      A nothing(0);
      z = exact;
      merge_unchecked(1, &nothing, z, &nothing, exact_part);
    } else {
      merge_unchecked(d_, o.data(), z, part.data(), part_z);
    }
    if (end < keys.size()) {
      for (A& x : o) {
        x = site(x, stored);
      }
    }
  }

  void gradients(const std::vector<Key>& keys, int s, int64_t row, int64_t at,
                 const std::vector<A>& o, A z) {
    const int rank = std::max(0, decomposition_.row_rank[s][row]);
    const double* q = &p_.q[s][at];
    const double* d_o = &p_.d_o[s][at];
    A delta(0);
    for (int64_t c = 0; c < d_; ++c) {
      delta += static_cast<A>(d_o[c]) * o[c];
    }
    std::vector<A> dq(d_, A(0));
    for (const Key& key : keys) {
      const A probability = std::exp(key.score - z);
      const double* v = &p_.v[key.stream][key.at];
      const double* k = &p_.k[key.stream][key.at];
      A dp(0);
      for (int64_t c = 0; c < d_; ++c) {
        dp += static_cast<A>(d_o[c]) * static_cast<A>(v[c]);
      }
      const A p = site(probability, contract_.p);
      const A ds = site(probability * (dp - delta), contract_.ds);
      A* dk = &dk_[key.stream][rank][key.at];
      A* dv = &dv_[key.stream][rank][key.at];
      for (int64_t c = 0; c < d_; ++c) {
        dq[c] += ds * static_cast<A>(k[c]);
        dk[c] += ds * static_cast<A>(q[c]);
        dv[c] += p * static_cast<A>(d_o[c]);
      }
    }
    for (int64_t c = 0; c < d_; ++c) {
      out_.dq[s][at + c] =
          site(dq[c] * scale_ * static_cast<A>(faults_.dq_gain), contract_.gradient);
    }
  }

  /// The sum over ranks of one element, as its owner gets it.
  A reduced(const std::vector<A>& part, GradientReturn how, int owner) const {
    const int ranks = static_cast<int>(part.size());
    const Dtype format = contract_.reduce;
    A sum(0);
    if (how == GradientReturn::local) {
      for (const A& x : part) {
        sum += x;  // at most one is not 0
      }
      return sum;
    }
    if (how == GradientReturn::added) {
      sum = part[owner];
      for (int r = 0; r < ranks; ++r) {
        sum += r == owner ? A(0) : site(part[r], format);
      }
      return sum;
    }
    if (contract_.reduce_order != ReduceOrder::tree) {
      for (const int r : order_of_ranks(contract_.reduce_order, ranks, owner)) {
        sum = site(sum + site(part[r], format), format);
      }
      return sum;
    }
    std::vector<A> level(part);
    for (A& x : level) {
      x = site(x, format);
    }
    while (level.size() > 1) {
      std::vector<A> next;
      for (size_t i = 0; i < level.size(); i += 2) {
        next.push_back(i + 1 < level.size() ? site(level[i] + level[i + 1], format) : level[i]);
      }
      level = std::move(next);
    }
    return level[0];
  }

  void add_ranks(int stream, const std::vector<std::vector<A>>& parts, double gain,
                 std::vector<double>& to) const {
    const int64_t width = p_.shape.kv_heads * d_;
    const bool is_dk = &parts == &dk_[stream];
    std::vector<A> part(parts.size());
    for (size_t i = 0; i < to.size(); ++i) {
      for (size_t r = 0; r < parts.size(); ++r) {
        part[r] = parts[r][i] * (is_dk ? scale_ : A(1));
      }
      const int owner =
          std::max(0, decomposition_.row_rank[stream][static_cast<int64_t>(i) / width]);
      const A sum = reduced(part, decomposition_.gradient_return[stream], owner);
      to[i] = site(sum * static_cast<A>(gain), contract_.gradient);
    }
  }

  const AttentionProblem<double>& p_;
  const Decomposition& decomposition_;
  const Contract& contract_;
  const EmulatedFaults& faults_;
  const int64_t d_;
  const A scale_;
  const bool backward_;
  AttentionOutputs out_;
  std::array<std::vector<std::vector<A>>, 2> dk_, dv_;  // by stream and rank: (L, Hkv, D)
};

}  // namespace

AttentionOutputs emulate(const AttentionProblem<double>& problem,
                         const Decomposition& decomposition, const Contract& contract,
                         const EmulatedFaults& faults) {
  if (contract.accumulate == Dtype::f64) {
    return Pipeline<double>(problem, decomposition, contract, faults).run();
  }
  require(contract.accumulate == Dtype::fp32, "accumulation in ", name(contract.accumulate),
          " is not emulated; fp32 and f64 are");
  return Pipeline<float>(problem, decomposition, contract, faults).run();
}

AttentionOutputs naive_bf16(const AttentionProblem<double>& problem,
                            const Decomposition& decomposition) {
  const int64_t d = problem.shape.head_dim;
  const auto bf16 = [](double x) { return static_cast<float>(round_to(x, Dtype::bf16)); };
  AttentionOutputs out;
  ByStream<float> dk;
  ByStream<float> dv;
  for (int s = 0; s < 2; ++s) {
    out.o[s].assign(problem.q[s].size(), 0);
    out.dq[s] = out.o[s];
    out.lse[s].assign(problem.q[s].size() / d, -std::numeric_limits<double>::infinity());
    dk[s].assign(problem.k[s].size(), 0);
    dv[s] = dk[s];
  }
  struct Key {
    int stream;
    int64_t at;
    float score, p, dp;
  };
  for (int s = 0; s < 2; ++s) {
    for (int64_t i = 0; i < problem.length * problem.shape.q_heads; ++i) {
      const int64_t row = i / problem.shape.q_heads;
      const int64_t kv_head = i % problem.shape.q_heads / problem.shape.group();
      const double* q = &problem.q[s][i * d];
      const double* d_o = &problem.d_o[s][i * d];
      std::vector<Key> keys;
      float most = -std::numeric_limits<float>::infinity();
      for (const KeyPart& part : decomposition.parts[s][row]) {
        const int t = static_cast<int>(part.stream);
        for (int64_t j = part.keys.begin; j < part.keys.end; ++j) {
          const int64_t at = (j * problem.shape.kv_heads + kv_head) * d;
          float score = 0;
          float dp = 0;
          for (int64_t c = 0; c < d; ++c) {
            score += static_cast<float>(q[c]) * static_cast<float>(problem.k[t][at + c]);
            dp += static_cast<float>(d_o[c]) * static_cast<float>(problem.v[t][at + c]);
          }
          keys.push_back({t, at, bf16(bf16(score) * problem.scale), 0, bf16(dp)});
          most = std::max(most, keys.back().score);
        }
      }
      if (keys.empty()) {
        continue;
      }
      float sum = 0;
      for (Key& key : keys) {
        key.p = std::exp(key.score - most);
        sum += key.p;
      }
      out.lse[s][i] = most + std::log(sum);
      std::vector<float> o(d, 0);
      std::vector<float> dq(d, 0);
      float mean = 0;
      for (Key& key : keys) {
        key.p = bf16(key.p / sum);
        mean += key.p * key.dp;
      }
      for (const Key& key : keys) {
        const float ds = bf16(key.p * (key.dp - mean));
        for (int64_t c = 0; c < d; ++c) {
          const auto v = static_cast<float>(problem.v[key.stream][key.at + c]);
          const auto k = static_cast<float>(problem.k[key.stream][key.at + c]);
          o[c] += key.p * v;
          dq[c] += ds * k;
          dv[key.stream][key.at + c] += key.p * static_cast<float>(d_o[c]);
          dk[key.stream][key.at + c] += ds * static_cast<float>(q[c]);
        }
      }
      for (int64_t c = 0; c < d; ++c) {
        out.o[s][i * d + c] = bf16(o[c]);
        out.dq[s][i * d + c] = bf16(bf16(dq[c]) * problem.scale);
      }
    }
  }
  for (int s = 0; s < 2; ++s) {
    for (const float x : dk[s]) {
      out.dk[s].push_back(bf16(bf16(x) * problem.scale));
    }
    for (const float x : dv[s]) {
      out.dv[s].push_back(bf16(x));
    }
  }
  return out;
}

}  // namespace bdlm
