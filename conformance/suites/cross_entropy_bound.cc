#include "conformance/suites/cross_entropy_bound.h"

#include <algorithm>
#include <cmath>

#include "conformance/judge/error_model.h"
#include "reference/math/cross_entropy.h"

namespace bdlm {
namespace {

void allocate(ExpectedTensor& tensor, int64_t rows, int64_t width, const Contract& contract,
              std::initializer_list<Dtype> sites) {
  tensor.channels = width;
  for (auto* values : {&tensor.value, &tensor.bound, &tensor.deviation}) {
    (*values)[0].assign(rows * width, 0);
  }
  tensor.accumulate_unit = unit_roundoff(contract.accumulate);
  tensor.unit = tensor.accumulate_unit;
  for (const Dtype site : sites) {
    tensor.unit = std::max(tensor.unit, unit_roundoff(site));
  }
}

/// The gradient of one logit with its bound and predicted variance.
struct LogitGradient {
  double g = 0, bound = 0, variance = 0;
};

class CrossEntropyBound {
 public:
  CrossEntropyBound(const CrossEntropyCall& call, const Contract& contract)
      : call_(call),
        contract_(contract),
        model_(contract, call.hidden_size),
        u_(model_.u()),
        logits_(call.vocab) {}

  /// The loss of a row, and by class the gradients of its logits.
  std::vector<LogitGradient> row(int64_t i, double& loss, double& loss_bound) {
    const int64_t width = call_.hidden_size;
    const int64_t label = call_.labels[i];
    double most = -std::numeric_limits<double>::infinity();
    for (int64_t c = 0; c < call_.vocab; ++c) {
      Logit& x = logits_[c];
      x = {};
      if (c == call_.excluded) {
        continue;
      }
      const PairTerms t =
          pair_terms(width, 1, &call_.hidden[i * width], &call_.head[c * width], nullptr, nullptr);
      x.y = call_.softcap > 0 ? call_.softcap * std::tanh(t.score / call_.softcap) : t.score;
      x.error = u_ * (model_.chain(width) + 1) * t.score_terms +
                (call_.softcap > 0 ? limits::tanh_roundings * u_ * std::abs(x.y) : 0);
      x.variance = ErrorModel::variance(u_) *
                   (static_cast<double>(width) / 2 * (t.score_squares + t.score * t.score) +
                    (call_.softcap > 0 ? x.y * x.y * limits::tanh_roundings : 0));
      most = std::max(most, x.y);
    }
    double sum = 0;
    for (int64_t c = 0; c < call_.vocab; ++c) {
      logits_[c].p = c == call_.excluded ? 0 : std::exp(logits_[c].y - most);
      sum += logits_[c].p;
    }
    const double z = most + std::log(sum);
    double z_error = 0;
    for (Logit& x : logits_) {
      x.p /= sum;
      z_error += x.p * x.error;
    }
    const double steps = model_.steps(call_.vocab);
    z_error += u_ * (std::min(steps, limits::lse_chain_deviations * std::sqrt(steps)) +
                     std::abs(z) + limits::exp_roundings);
    const double weight = call_.row_weights[i];
    const Logit& target = logits_[label];
    loss = weight * (z - target.y);
    loss_bound =
        std::abs(weight) * (z_error + target.error + u_ * (std::abs(z) + std::abs(target.y))) +
        (2 * u_ + unit_roundoff(contract_.lse)) * std::abs(loss) + ErrorModel::tiny(contract_.lse);
    std::vector<LogitGradient> out(call_.vocab);
    for (int64_t c = 0; c < call_.vocab; ++c) {
      if (c != call_.excluded && weight != 0) {
        out[c] = gradient(logits_[c], z, z_error, c == label, call_.upstream * weight);
      }
    }
    return out;
  }

  double chain(int64_t n) const { return model_.chain(n) * u_; }
  double site(Dtype dtype) const { return model_.site(dtype); }
  const ErrorModel& model() const { return model_; }

 private:
  struct Logit {
    double y = 0, error = 0, variance = 0, p = 0;
  };

  LogitGradient gradient(const Logit& x, double z, double z_error, bool is_label,
                         double factor) const {
    const double t = call_.softcap > 0 ? x.y / call_.softcap : 0;
    const double slope = (1 - t) * (1 + t);
    const double slope_error =
        call_.softcap > 0 ? 2 * std::abs(t) * x.error / call_.softcap + limits::tanh_roundings * u_
                          : 0;
    const double q = is_label ? x.p - 1 : x.p;
    const double exponent = u_ * (std::abs(x.y - z) + limits::exp_roundings);
    const double relative = std::expm1(x.error + z_error + exponent);
    const double size = std::abs(factor);
    LogitGradient out;
    out.g = factor * q * slope;
    out.bound = size * (x.p * relative * slope + std::abs(q) * slope_error) +
                limits::logit_gradient_roundings * u_ * std::abs(out.g);
    const double tiny = ErrorModel::tiny(contract_.ds) * std::max(1.0, size);
    out.bound += site(contract_.ds) * (std::abs(out.g) + out.bound) + tiny;
    const double of_p = size * slope * x.p;
    out.variance = ErrorModel::variance(site(contract_.ds)) * out.g * out.g + tiny * tiny +
                   of_p * of_p * (x.variance + exponent * exponent) +
                   ErrorModel::variance(u_) * limits::logit_gradient_roundings * out.g * out.g;
    return out;
  }

  const CrossEntropyCall& call_;
  const Contract& contract_;
  ErrorModel model_;
  double u_;
  std::vector<Logit> logits_;
};

/// Values by the reference.
void reference_gradients(const CrossEntropyCall& call, ExpectedCrossEntropy& out) {
  std::vector<int64_t> labels = call.labels;
  for (int64_t& label : labels) {
    label = std::max<int64_t>(label, -1);
  }
  CrossEntropyOptions options;
  options.softcap = call.softcap;
  options.excluded = call.excluded;
  const CrossEntropyShape shape{static_cast<int64_t>(labels.size()), call.hidden_size, call.vocab};
  cross_entropy_backward<double>(shape, call.hidden.data(), call.head.data(), labels,
                                 call.row_weights, call.upstream, out.d_hidden.value[0].data(),
                                 out.d_head.value[0].data(), options);
}

}  // namespace

ExpectedCrossEntropy expected_cross_entropy(const CrossEntropyCall& call,
                                            const Contract& contract) {
  const auto rows = static_cast<int64_t>(call.labels.size());
  const int64_t width = call.hidden_size;
  ExpectedCrossEntropy out;
  allocate(out.row_loss, rows, 1, contract, {});
  allocate(out.d_hidden, rows, width, contract, {contract.ds, contract.gradient});
  allocate(out.d_head, call.vocab, width, contract, {contract.ds});
  reference_gradients(call, out);
  CrossEntropyBound bounds(call, contract);
  const int64_t counted =
      std::count_if(call.labels.begin(), call.labels.end(), [](int64_t x) { return x >= 0; });
  const double of_rows = bounds.chain(counted);
  const double of_classes = bounds.chain(call.vocab);
  const double u = bounds.model().u();
  for (int64_t i = 0; i < rows; ++i) {
    if (call.labels[i] < 0 || call.row_weights[i] == 0) {
      continue;
    }
    const std::vector<LogitGradient> logits =
        bounds.row(i, out.row_loss.value[0][i], out.row_loss.bound[0][i]);
    for (int64_t e = 0; e < width; ++e) {
      double bound = 0, variance = 0;
      for (int64_t c = 0; c < call.vocab; ++c) {
        const LogitGradient& x = logits[c];
        const double w = std::abs(call.head[c * width + e]);
        const double h = std::abs(call.hidden[i * width + e]);
        bound += (x.bound + of_classes * std::abs(x.g)) * w;
        variance += (x.variance + bounds.model().chain_variance(call.vocab) * x.g * x.g) * w * w;
        out.d_head.bound[0][c * width + e] += (x.bound + of_rows * std::abs(x.g)) * h;
        out.d_head.deviation[0][c * width + e] +=
            (x.variance + bounds.model().chain_variance(counted) * x.g * x.g) * h * h;
      }
      const double value = out.d_hidden.value[0][i * width + e];
      const double u_out = bounds.site(contract.gradient);
      out.d_hidden.bound[0][i * width + e] =
          bound + (u_out + u) * (std::abs(value) + bound) + ErrorModel::tiny(contract.gradient);
      out.d_hidden.deviation[0][i * width + e] =
          std::sqrt(variance + ErrorModel::variance(u_out + u) * value * value +
                    ErrorModel::tiny_variance(contract.gradient));
    }
  }
  for (size_t i = 0; i < out.d_head.bound[0].size(); ++i) {
    const double value = std::abs(out.d_head.value[0][i]);
    double& bound = out.d_head.bound[0][i];
    bound += bound > 0 ? u * value + ErrorModel::tiny(contract.accumulate) : 0;
    double& deviation = out.d_head.deviation[0][i];
    deviation = std::sqrt(deviation + ErrorModel::variance(u) * value * value);
  }
  return out;
}

}  // namespace bdlm
