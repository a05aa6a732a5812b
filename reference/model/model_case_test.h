#pragma once
// Small models on irregular inputs, for tests.

#include <string>
#include <vector>

#include "reference/base/philox.h"
#include "reference/model/dense.h"
#include "reference/model/naive_attention_test.h"

namespace bdlm::test {

/// A model, both streams of a sequence (L corrupted rows, L clean rows), and loss terms of
/// irregular weights on rows of both, one row with two terms.
struct ModelCase {
  std::string name;
  DenseConfig config;
  Sequence sequence = Sequence::uniform(1, 1);
  std::vector<RowInput> rows;
  std::vector<RowTerm> terms;
};

inline ModelCase make_model_case(std::string name, const DenseConfig& config,
                                 const Sequence& sequence) {
  ModelCase out{std::move(name), config, sequence, {}, {}};
  const Philox random(11, 3);
  const int64_t length = sequence.length();
  for (int64_t r = 0; r < 2 * length; ++r) {
    out.rows.push_back({random.below(r, config.vocab), sequence.position(r % length)});
    if (r % 3 != 1 && !sequence.is_padding(r % length)) {
      const int64_t label = random.below(1000 + r, config.vocab);
      const double weight = 0.02 + 0.3 * random.uniform(2000 + r);
      out.terms.push_back({r, label == config.excluded_logit ? 0 : label, weight});
    }
  }
  out.terms.push_back({out.terms[0].row, 1, 0.7});
  return out;
}

/// Options off, and each of them on somewhere.
inline std::vector<ModelCase> model_cases() {
  constexpr LayerRule block{CleanRule::block_causal, 0};
  constexpr LayerRule causal{CleanRule::token_causal, 0};
  constexpr LayerRule window{CleanRule::block_causal, 3};
  DenseConfig plain{.layers = 1,
                    .hidden = 6,
                    .q_heads = 2,
                    .kv_heads = 2,
                    .head_dim = 4,
                    .mlp = 7,
                    .vocab = 9,
                    .rules = {block}};
  DenseConfig tied = plain;
  tied.tied = true;
  tied.rules = {causal};
  DenseConfig full{.layers = 2,
                   .hidden = 12,
                   .q_heads = 6,
                   .kv_heads = 2,
                   .head_dim = 4,
                   .mlp = 14,
                   .vocab = 8,
                   .tied = true,
                   .qk_norm = true,
                   .rope_theta = 50,
                   .rules = {window, causal},
                   .softcap = 2,
                   .excluded_logit = 3};
  DenseConfig untied = full;
  untied.tied = false;
  untied.excluded_logit = -1;
  return {make_model_case("plain", plain, Sequence::uniform(7, 3)),
          make_model_case("tied", tied, Sequence::uniform(6, 2)),
          make_model_case("full", full, Sequence::uniform(9, 2, {{0, 5}, {5, 8}})),
          make_model_case("untied", untied, Sequence::uniform(8, 3, {{0, 1}, {1, 8}}))};
}

/// The loss, and with `gradients` its gradients.
template <class T>
T model_loss(const ModelCase& c, const DenseParameters<T>& parameters,
             DenseParameters<T>* gradients = nullptr, bool checkpointing = false) {
  NaiveAttention<T> attention(c.config, c.sequence);
  return dense_loss<T>(c.config, parameters, c.rows, c.terms, attention, checkpointing, gradients);
}

/// A random direction in parameter space.
inline std::vector<double> direction(int64_t size, uint64_t seed) {
  const Philox random(seed, 77);
  std::vector<double> v(size);
  for (int64_t i = 0; i < size; ++i) {
    v[i] = random.gaussian(i);
  }
  return v;
}

}  // namespace bdlm::test
