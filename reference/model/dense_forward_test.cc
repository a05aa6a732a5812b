#include <boost/test/unit_test.hpp>
#include <cmath>

#include "reference/model/model_case_test.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(dense_forward_suite)

namespace {

using test::ModelCase;
using Row = std::vector<double>;

/// The model from its definition, one row and one number at a time; shares no code with the model
/// but the parameters and the test's attention masks.
class PlainModel {
 public:
  PlainModel(const ModelCase& c, const DenseParameters<double>& p) : c_(c), p_(p) {}

  /// sum over terms of weight * (log sum_j exp(z_j) - z_label)
  double loss() const {
    const std::vector<Row> x = hidden();
    double total = 0;
    for (const RowTerm& term : c_.terms) {
      const char* head = c_.config.tied ? "model.embed_tokens.weight" : "lm_head.weight";
      Row z = times(head, norm("model.norm.weight", x[term.row]));
      double sum = 0;
      for (int64_t j = 0; j < c_.config.vocab; ++j) {
        if (c_.config.softcap > 0) {
          z[j] = c_.config.softcap * std::tanh(z[j] / c_.config.softcap);
        }
        sum += j == c_.config.excluded_logit ? 0 : std::exp(z[j]);
      }
      total += term.weight * (std::log(sum) - z[term.label]);
    }
    return total;
  }

 private:
  std::vector<Row> hidden() const {
    const DenseConfig& config = c_.config;
    std::vector<Row> x;
    const auto embedding = p_.tensor("model.embed_tokens.weight");
    for (const RowInput& row : c_.rows) {
      const auto first = embedding.begin() + row.token * config.hidden;
      x.emplace_back(first, first + config.hidden);
    }
    for (int64_t n = 0; n < config.layers; ++n) {
      const std::string layer = join("model.layers.", n, ".");
      Row q, k, v;
      for (size_t r = 0; r < x.size(); ++r) {
        const Row n1 = norm(layer + "input_layernorm.weight", x[r]);
        append(q, turned(layer + "self_attn.q", n1, c_.rows[r].position));
        append(k, turned(layer + "self_attn.k", n1, c_.rows[r].position));
        append(v, times(layer + "self_attn.v_proj.weight", n1));
      }
      Row o(q.size());
      test::NaiveAttention<double> attention(config, c_.sequence);
      attention.forward(n, false, q.data(), k.data(), v.data(), o.data());
      const int64_t width = config.q_heads * config.head_dim;
      for (size_t r = 0; r < x.size(); ++r) {
        const Row own(o.begin() + r * width, o.begin() + (r + 1) * width);
        add(x[r], times(layer + "self_attn.o_proj.weight", own));
        const Row n2 = norm(layer + "post_attention_layernorm.weight", x[r]);
        Row m = times(layer + "mlp.gate_proj.weight", n2);
        const Row up = times(layer + "mlp.up_proj.weight", n2);
        for (size_t i = 0; i < m.size(); ++i) {
          m[i] = m[i] / (1 + std::exp(-m[i])) * up[i];
        }
        add(x[r], times(layer + "mlp.down_proj.weight", m));
      }
    }
    return x;
  }

  /// W x for a matrix (out, in).
  Row times(const std::string& name, const Row& x) const {
    const auto w = p_.tensor(name);
    Row y(w.size() / x.size(), 0.0);
    for (size_t i = 0; i < w.size(); ++i) {
      y[i / x.size()] += w[i] * x[i % x.size()];
    }
    return y;
  }

  Row norm(const std::string& name, const Row& x) const {
    double square = 0;
    for (const double value : x) {
      square += value * value / static_cast<double>(x.size());
    }
    Row y = x;
    for (size_t i = 0; i < x.size(); ++i) {
      y[i] = p_.tensor(name)[i] * x[i] / std::sqrt(square + c_.config.rms_eps);
    }
    return y;
  }

  /// Heads of q or k: projected, normalised where the model does so, then rotated: the pair
  /// (x_i, x_{i + D/2}) as a complex number times exp(i position theta^(-2i/D)).
  Row turned(const std::string& prefix, const Row& n1, int64_t position) const {
    Row all = times(prefix + "_proj.weight", n1);
    const int64_t dim = c_.config.head_dim;
    for (size_t at = 0; at < all.size(); at += dim) {
      Row head(all.begin() + at, all.begin() + at + dim);
      if (c_.config.qk_norm) {
        head = norm(prefix + "_norm.weight", head);
      }
      for (int64_t i = 0; i < dim / 2; ++i) {
        const double angle = static_cast<double>(position) *
                             std::pow(c_.config.rope_theta, -2.0 * i / static_cast<double>(dim));
        all[at + i] = head[i] * std::cos(angle) - head[i + dim / 2] * std::sin(angle);
        all[at + i + dim / 2] = head[i + dim / 2] * std::cos(angle) + head[i] * std::sin(angle);
      }
    }
    return all;
  }

  static void append(Row& to, const Row& from) { to.insert(to.end(), from.begin(), from.end()); }
  static void add(Row& to, const Row& from) {
    for (size_t i = 0; i < to.size(); ++i) {
      to[i] += from[i];
    }
  }

  const ModelCase& c_;
  const DenseParameters<double>& p_;
};

// The model's loss = the loss from the definition, |difference| <= 1e-14 * loss.
BOOST_AUTO_TEST_CASE(loss_follows_the_definition) {
  for (const ModelCase& c : test::model_cases()) {
    const DenseParameters<double> parameters = random_parameters(c.config, 8);
    const double expected = PlainModel(c, parameters).loss();
    const double loss = test::model_loss(c, parameters);
    BOOST_TEST(std::abs(loss - expected) <= 1e-14 * expected,
               c.name << ": " << loss << " " << expected);
  }
}

// A head of zeros: every label has probability 1/V, or 1/(V - 1) where one logit is left out.
BOOST_AUTO_TEST_CASE(equal_logits_give_log_vocabulary) {
  for (const ModelCase& c : test::model_cases()) {
    if (c.config.tied) {
      continue;
    }
    DenseParameters<double> parameters = random_parameters(c.config, 8);
    for (double& w : parameters.tensor("lm_head.weight")) {
      w = 0;
    }
    double weights = 0;
    for (const RowTerm& term : c.terms) {
      weights += term.weight;
    }
    const double choices = static_cast<double>(c.config.vocab - (c.config.excluded_logit >= 0));
    const double expected = weights * std::log(choices);
    BOOST_TEST(std::abs(test::model_loss(c, parameters) - expected) <= 1e-14 * expected, c.name);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
