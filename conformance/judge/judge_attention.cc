#include "conformance/judge/judge_attention.h"

#include <limits>
#include <span>

#include "reference/base/error.h"

namespace bdlm {
namespace {

using OutputList = std::span<const AttentionOutput>;
constexpr OutputList forward_outputs = OutputList(attention_outputs).first(2);
constexpr OutputList backward_outputs = OutputList(attention_outputs).subspan(2);

/// Offsets of a pair's channels, and its terms.
struct PairAt {
  int64_t q, k;
  PairTerms terms;
  double p;
};

PairAt locate(const AttentionProblem<double>& problem, const ExpectedAttention& expected,
              const Pair& pair) {
  const AttentionShape& shape = problem.shape;
  const int s = static_cast<int>(pair.stream);
  const int t = static_cast<int>(pair.key_stream);
  PairAt at{};
  const int64_t lse = pair.row * shape.q_heads + pair.head;
  at.q = lse * shape.head_dim;
  at.k = (pair.key * shape.kv_heads + pair.head / shape.group()) * shape.head_dim;
  at.terms =
      pair_terms(shape.head_dim, problem.scale, &problem.q[s][at.q], &problem.k[t][at.k],
                 &problem.v[t][at.k], problem.d_o[s].empty() ? nullptr : &problem.d_o[s][at.q]);
  at.p = std::exp(at.terms.score - expected.lse.value[s][lse]);
  return at;
}

}  // namespace

std::optional<Pair> pair_to_drop(const AttentionProblem<double>& problem,
                                 const Decomposition& decomposition,
                                 const ExpectedAttention& expected) {
  int64_t most = 0;
  Pair pair;
  for (const Stream stream : {Stream::clean, Stream::corrupted}) {
    for (int64_t row = 0; row < problem.length; ++row) {
      int64_t keys = 0;
      for (const KeyPart& part : decomposition.parts_of(stream, row)) {
        keys += part.keys.size();
      }
      if (keys > most) {
        most = keys;
        pair.stream = stream;
        pair.row = row;
      }
    }
  }
  if (most == 0 || most > limits::vacuous_keys) {
    return std::nullopt;
  }
  double smallest = std::numeric_limits<double>::infinity();
  Pair best = pair;
  for (const KeyPart& part : decomposition.parts_of(pair.stream, pair.row)) {
    for (int64_t key = part.keys.begin; key < part.keys.end; ++key) {
      pair.key_stream = part.stream;
      pair.key = key;
      const double p = locate(problem, expected, pair).p;
      // The largest p is at least 1/n but for rounding, where all are equal.
      if (p >= (1 - limits::vacuous_probability) / static_cast<double>(most) && p < smallest) {
        smallest = p;
        best = pair;
      }
    }
  }
  return best;
}

AttentionOutputs without_pair(const AttentionProblem<double>& problem,
                              const ExpectedAttention& expected, const Pair& pair) {
  AttentionOutputs out{expected.o.value, expected.dq.value, expected.lse.value, expected.dk.value,
                       expected.dv.value};
  const PairAt at = locate(problem, expected, pair);
  const int64_t d = problem.shape.head_dim;
  const int s = static_cast<int>(pair.stream);
  const int t = static_cast<int>(pair.key_stream);
  const double* v = &problem.v[t][at.k];
  double* o = &out.o[s][at.q];
  double& z = out.lse[s][at.q / d];
  // O' = (O - p v) / (1 - p), z' = z + log(1 - p)
  const double rest = -std::expm1(at.terms.score - z);
  const bool alone = !(rest > 0);
  for (int64_t c = 0; c < d; ++c) {
    o[c] = alone ? 0 : (o[c] - at.p * v[c]) / rest;
  }
  z = alone ? -std::numeric_limits<double>::infinity() : z + std::log(rest);
  if (problem.d_o[s].empty()) {
    return out;
  }
  const double* d_o = &problem.d_o[s][at.q];
  double delta = 0;
  for (int64_t c = 0; c < d; ++c) {
    delta += d_o[c] * expected.o.value[s][at.q + c];
  }
  const double ds = problem.scale * at.p * (at.terms.dp - delta);
  for (int64_t c = 0; c < d; ++c) {
    out.dq[s][at.q + c] -= ds * problem.k[t][at.k + c];
    out.dk[t][at.k + c] -= ds * problem.q[s][at.q + c];
    out.dv[t][at.k + c] -= at.p * d_o[c];
  }
  return out;
}

std::vector<TensorResult> judge_attention(const AttentionProblem<double>& problem,
                                          const Decomposition& decomposition,
                                          const ExpectedAttention& expected,
                                          const AttentionOutputs& got, bool gaussian) {
  const std::optional<Pair> pair = pair_to_drop(problem, decomposition, expected);
  AttentionOutputs dropped;
  if (pair) {
    dropped = without_pair(problem, expected, *pair);
  }
  std::vector<TensorResult> results;
  const auto judge = [&](OutputList outputs) {
    const size_t first = results.size();
    bool passes = true;
    bool caught = false;
    for (const AttentionOutput& output : outputs) {
      const auto verdict_on = [&](const AttentionOutputs& values) {
        return judge_tensor(output.kind, problem.shape, decomposition, expected.*output.expected,
                            values.*output.got, gaussian);
      };
      results.push_back(verdict_on(got));
      passes = passes && results.back().verdict != Verdict::fail;
      caught = caught || (pair && verdict_on(dropped).verdict == Verdict::fail);
    }
    TensorResult& result = results[first];
    result.figures.emplace_back("dropped_pair", pair ? caught ? "caught" : "missed" : "untested");
    if (pair && !caught && passes && result.verdict < Verdict::mistrusted) {
      result.verdict = Verdict::mistrusted;
      result.reason = Reason::none;
      result.detail = join("vacuous: it would pass without the pair of ", name(pair->stream),
                           " row ", pair->row, ", head ", pair->head, " and ",
                           name(pair->key_stream), " key ", pair->key);
    }
  };
  judge(forward_outputs);
  if (!expected.dq.value[0].empty()) {
    judge(backward_outputs);
  }
  return results;
}

}  // namespace bdlm
