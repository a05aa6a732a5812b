// Cross-entropy vectors: loss by row, gradients of the hidden rows and of the head.

#include "conformance/golden/golden_vector.h"
#include "conformance/judge/error_model.h"
#include "reference/base/philox.h"
#include "reference/math/quad.h"

namespace bdlm {
namespace {

struct Inputs {
  std::vector<double> hidden;   // (R, E)
  std::vector<double> head;     // (V, E)
  std::vector<double> labels;   // (R)
  std::vector<double> weights;  // (R)
};

/// Philox tensors 0 to 3. The first and the last row have no label, and the fourth one has weight
/// 0.
Inputs inputs_of(const CrossEntropyVector& v, const Contract& contract, uint64_t seed) {
  Inputs out;
  const Philox hidden(seed, 0);
  const Philox head(seed, 1);
  const Philox labels(seed, 2);
  const Philox weights(seed, 3);
  for (int64_t i = 0; i < v.rows * v.hidden; ++i) {
    out.hidden.push_back(round_to(v.factor * hidden.gaussian(i), contract.input));
  }
  for (int64_t i = 0; i < v.vocab * v.hidden; ++i) {
    out.head.push_back(round_to(0.5 * head.gaussian(i), contract.input));
  }
  for (int64_t row = 0; row < v.rows; ++row) {
    // Any class but the excluded one.
    int64_t label = labels.below(row, v.vocab - (v.excluded >= 0 ? 1 : 0));
    label += v.excluded >= 0 && label >= v.excluded ? 1 : 0;
    out.labels.push_back(static_cast<double>(row == 0 || row + 1 == v.rows ? -1 : label));
    // Exact: a multiple of 2^-20 below 2^-2.
    out.weights.push_back(row == 3 ? 0 : (0.25 + std::abs(weights.gaussian(row))) / 32);
  }
  return out;
}

/// One row after another; sums over rows go on in d_head.
class CrossEntropyInQuad {
 public:
  CrossEntropyInQuad(const CrossEntropyVector& v, const Contract& contract, const Inputs& in)
      : v_(v), contract_(contract), model_(contract, v.hidden), in_(in), u_(model_.u()) {
    head_value_.assign(v.vocab * v.hidden, Quad(0));
    head_error_.assign(head_value_.size(), 0);
    head_terms_ = head_variance_ = head_error_;
  }

  GoldenVector run() {
    OutputTensor loss{"row_loss", {v_.rows}, {}, {}, {}};
    OutputTensor d_hidden{"d_hidden", {v_.rows, v_.hidden}, {}, {}, {}};
    OutputTensor d_head{"d_head", {v_.vocab, v_.hidden}, {}, {}, {}};
    int64_t counted = 0;
    for (int64_t row = 0; row < v_.rows; ++row) {
      if (in_.labels[row] < 0 || in_.weights[row] == 0) {
        push(loss, Quad(0), 0, 0);
        for (int64_t e = 0; e < v_.hidden; ++e) {
          push(d_hidden, Quad(0), 0, 0);
        }
        continue;
      }
      ++counted;
      logits(row);
      softmax();
      losses(row, loss);
      gradients(row, d_hidden);
    }
    // + c(rows) u sum |g h|; the head's gradient has the format of the accumulation
    const double chain = model_.chain(counted) * u_;
    for (size_t i = 0; i < head_value_.size(); ++i) {
      const auto value = static_cast<double>(head_value_[i]);
      push(d_head, head_value_[i],
           head_error_[i] + chain * head_terms_[i] +
               (head_error_[i] > 0 ? limits::flush_to_zero : 0),
           std::sqrt(head_variance_[i] + model_.chain_variance(counted) * value * value));
    }
    GoldenVector out;
    out.outputs = {std::move(loss), std::move(d_hidden), std::move(d_head)};
    return out;
  }

 private:
  static void push(OutputTensor& t, const Quad& value, double bound, double deviation) {
    t.value.push_back(static_cast<double>(value));
    t.bound.push_back(bound);
    t.deviation.push_back(deviation);
  }

  /// y = cap(h . w); |error of y| <= u [(E + 5) sum |h w| + 4 |y| under a cap]
  void logits(int64_t row) {
    y_.assign(v_.vocab, Quad(0));
    error_.assign(v_.vocab, 0);
    variance_.assign(v_.vocab, 0);
    for (int64_t j = 0; j < v_.vocab; ++j) {
      double terms = 0;
      double squares = 0;
      for (int64_t e = 0; e < v_.hidden; ++e) {
        const double h = in_.hidden[row * v_.hidden + e];
        const double w = in_.head[j * v_.hidden + e];
        y_[j] += Quad(h) * Quad(w);
        terms += std::abs(h * w);
        squares += h * w * h * w;
      }
      const auto x = static_cast<double>(y_[j]);
      if (v_.softcap > 0) {
        y_[j] = Quad(v_.softcap) * tanh(y_[j] / Quad(v_.softcap));
      }
      const double capped = v_.softcap > 0 ? limits::exp_roundings * v_.softcap : 0;
      error_[j] = u_ * ((model_.d() + limits::score_roundings) * terms + capped);
      variance_[j] =
          ErrorModel::variance(u_) * (model_.d() / 2 * (squares + x * x) + capped * capped);
    }
  }

  /// p, and z with its error sum p e + u (|z| + 4 + c(V)).
  void softmax() {
    p_.assign(v_.vocab, Quad(0));
    Quad most = -std::numeric_limits<Quad>::infinity();
    for (int64_t j = 0; j < v_.vocab; ++j) {
      most = j != v_.excluded && most < y_[j] ? y_[j] : most;
    }
    Quad sum(0);
    for (int64_t j = 0; j < v_.vocab; ++j) {
      p_[j] = j == v_.excluded ? Quad(0) : exp(y_[j] - most);
      sum += p_[j];
    }
    z_ = most + log(sum);
    const auto z = static_cast<double>(z_);
    z_error_ = u_ * (std::abs(z) + limits::exp_roundings + model_.chain(v_.vocab));
    z_variance_ = ErrorModel::variance(u_) * (z * z + limits::exp_roundings) +
                  model_.chain_variance(v_.vocab);
    for (int64_t j = 0; j < v_.vocab; ++j) {
      p_[j] /= sum;
      const auto p = static_cast<double>(p_[j]);
      z_error_ += p * error_[j];
      z_variance_ += p * p * variance_[j];
    }
  }

  /// weight (z - y_label)
  void losses(int64_t row, OutputTensor& loss) {
    const auto label = static_cast<int64_t>(in_.labels[row]);
    const double weight = in_.weights[row];
    const Quad value = Quad(weight) * (z_ - y_[label]);
    const auto size = std::abs(static_cast<double>(value));
    push(loss, value,
         std::abs(weight) * (z_error_ + error_[label]) + 2 * u_ * size + limits::flush_to_zero,
         std::sqrt(weight * weight * (z_variance_ + variance_[label]) +
                   ErrorModel::variance(u_) * 2 * size * size));
  }

  /// g_j = upstream weight (p_j - [j = label]) slope_j, rounded as dS is; then two products.
  void gradients(int64_t row, OutputTensor& d_hidden) {
    const auto label = static_cast<int64_t>(in_.labels[row]);
    const double factor = v_.upstream * in_.weights[row];
    const double u_g = model_.site(contract_.ds);
    std::vector<Quad> value(v_.hidden, Quad(0));
    std::vector<double> error(v_.hidden, 0);
    std::vector<double> terms(error);
    std::vector<double> squares(error);
    std::vector<double> variance(error);
    for (int64_t j = 0; j < v_.vocab; ++j) {
      if (j == v_.excluded) {
        continue;
      }
      const Quad share = v_.softcap > 0 ? y_[j] / Quad(v_.softcap) : Quad(0);
      const Quad slope = (Quad(1) - share) * (Quad(1) + share);
      const Quad g = Quad(factor) * (p_[j] - Quad(j == label ? 1 : 0)) * slope;
      const auto p = static_cast<double>(p_[j]);
      const auto size = std::abs(static_cast<double>(g));
      const auto y = static_cast<double>(y_[j]);
      const double exponent = u_ * (std::abs(y - static_cast<double>(z_)) + limits::exp_roundings);
      // p (exp(errors of y and z) - 1), the slope's 2 |y| / c^2 error, a few roundings of g
      const double bend =
          v_.softcap > 0 ? 2 * std::abs(y) / (v_.softcap * v_.softcap) * error_[j] : 0;
      double g_error = std::abs(factor) * (p * std::expm1(error_[j] + z_error_ + exponent) + bend) +
                       limits::score_roundings * u_ * (size + std::abs(factor) * p);
      g_error += u_g * (size + g_error) + std::abs(factor) * ErrorModel::tiny(contract_.ds);
      const double g_variance = factor * factor *
                                    (p * p * (variance_[j] + z_variance_ + exponent * exponent) +
                                     bend * bend * limits::rounding_variance) +
                                ErrorModel::variance(u_g) * size * size +
                                ErrorModel::variance(u_) * limits::score_roundings * size * size;
      for (int64_t e = 0; e < v_.hidden; ++e) {
        const double h = in_.hidden[row * v_.hidden + e];
        const double w = in_.head[j * v_.hidden + e];
        value[e] += g * Quad(w);
        error[e] += g_error * std::abs(w);
        terms[e] += size * std::abs(w);
        squares[e] += size * w * size * w;
        variance[e] += g_variance * w * w;
        const int64_t at = j * v_.hidden + e;
        head_value_[at] += g * Quad(h);
        head_error_[at] += g_error * std::abs(h);
        head_terms_[at] += size * std::abs(h);
        head_variance_[at] += g_variance * h * h;
      }
    }
    const double u_out = model_.site(contract_.gradient);
    for (int64_t e = 0; e < v_.hidden; ++e) {
      const auto x = static_cast<double>(value[e]);
      const double inner = error[e] + model_.chain(v_.vocab) * u_ * terms[e];
      push(d_hidden, value[e],
           inner + u_out * (std::abs(x) + inner) + ErrorModel::tiny(contract_.gradient),
           std::sqrt(variance[e] + model_.chain_variance(v_.vocab) * (squares[e] + x * x) +
                     ErrorModel::variance(u_out) * x * x));
    }
  }

  const CrossEntropyVector& v_;
  const Contract& contract_;
  ErrorModel model_;
  const Inputs& in_;
  const double u_;
  // The row at hand.
  std::vector<Quad> y_, p_;
  std::vector<double> error_, variance_;
  Quad z_{0};
  double z_error_ = 0, z_variance_ = 0;
  // All rows.
  std::vector<Quad> head_value_;
  std::vector<double> head_error_, head_terms_, head_variance_;
};

}  // namespace

GoldenVector make_cross_entropy(const GoldenCase& c, Making making) {
  const auto& v = std::get<CrossEntropyVector>(c.what);
  const Contract contract = builtin_contract(c.contract);
  const Inputs in = inputs_of(v, contract, c.seed);
  GoldenVector out;
  if (making == Making::all) {
    out = CrossEntropyInQuad(v, contract, in).run();
  }
  const DType dtype = file_dtype(contract.input);
  out.inputs = {{"hidden", {v.rows, v.hidden}, dtype, in.hidden},
                {"head", {v.vocab, v.hidden}, dtype, in.head},
                {"labels", {v.rows}, DType::i64, in.labels},
                {"row_weights", {v.rows}, DType::f32, in.weights}};
  out.parameters = {{"softcap", number_text(v.softcap)},
                    {"excluded", join(v.excluded)},
                    {"upstream", number_text(v.upstream)}};
  return out;
}

}  // namespace bdlm
