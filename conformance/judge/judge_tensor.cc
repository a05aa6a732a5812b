#include "conformance/judge/judge_tensor.h"

#include <optional>

#include "reference/base/error.h"

namespace bdlm {
namespace {

/// A limit that does not hold, or holds barely.
struct Finding {
  Verdict verdict = Verdict::pass;
  Reason reason = Reason::none;
  std::string text;
  Place place;
};

/// Whether the contract rounds somewhere behind the tensor.
bool rounds(const ExpectedTensor& expected) {
  return expected.unit > expected.accumulate_unit;
}

double noise_limit(const Measures& m) {
  return limits::noise_pass + limits::noise_samples / std::sqrt(static_cast<double>(m.elements));
}

double gain_limit(const ExpectedTensor& expected, const Measures& m, bool gaussian) {
  const double share = gaussian ? limits::gain_unit_share : limits::gain_unit_share_structured;
  return std::max({expected.unit / share, limits::gain_deviations * m.gain_deviation,
                   limits::gain_row_deviations * m.gain_row_deviation,
                   limits::gain_exp_roundings * expected.accumulate_unit});
}

class Judge {
 public:
  Judge(JudgedBy by, const ExpectedTensor& expected, bool gaussian)
      : every_limit_(by == JudgedBy::every_limit),
        statistical_(every_limit_ && rounds(expected)),
        gaussian_(gaussian),
        expected_(expected) {}

  /// The worst finding; `got` as in measure.
  Finding decide(const Measures& m, const std::function<double(int, int64_t)>& got) const {
    if (m.nonfinite > 0) {
      return {Verdict::fail, Reason::nonfinite,
              join(m.nonfinite, " values are NaN or infinite, or are not where they should be"),
              m.first_nonfinite};
    }
    if (m.not_zero > 0) {
      return {Verdict::fail, Reason::coverage,
              join(m.not_zero, " values are not 0 where nothing is attended"), m.first_not_zero};
    }
    const double limit = gain_limit(expected_, m, gaussian_);
    const bool scaled =
        every_limit_ && limit < limits::gain_measurable && std::abs(m.gain - 1) > limit;
    Finding scale;
    if (scaled) {
      scale = {Verdict::fail, Reason::scale,
               join("the right result times 1 ", m.gain < 1 ? "- " : "+ ", std::abs(m.gain - 1),
                    ", where +-", limit, " is allowed"),
               m.worst_z};
      // Named first where nothing else is wrong once the factor is divided out.
      if (m.elements >= limits::gain_elements && m.gain != 0) {
        const Measures rest =
            measure(expected_, [&](int s, int64_t i) { return got(s, i) / m.gain; });
        const Finding other = limits_of_elements(rest);
        if (other.verdict != Verdict::fail) {
          return scale;
        }
      }
    }
    Finding finding = limits_of_elements(m);
    return scaled && finding.verdict != Verdict::fail ? scale : finding;
  }

 private:
  /// Bound, outlier, noise.
  Finding limits_of_elements(const Measures& m) const {
    if (m.err_over_h > 1) {
      return {Verdict::fail, Reason::bound, join("off by ", m.err_over_h, " times the bound"),
              m.worst_bound};
    }
    if (!statistical_) {
      return {};
    }
    const auto outlier = [&](Verdict verdict) {
      return Finding{verdict, Reason::outlier, join("off by ", m.max_z, " predicted deviations"),
                     m.worst_z};
    };
    if (m.max_z > limits::outlier_fail) {
      return outlier(Verdict::fail);
    }
    const bool noise = gaussian_ && m.elements >= limits::noise_elements;
    const auto noisy = [&](Verdict verdict) {
      return Finding{verdict, Reason::noise,
                     join("errors are ", m.rms_z, " times as large as predicted, over ", m.elements,
                          " elements"),
                     m.worst_z};
    };
    if (noise && m.rms_z > std::max(limits::noise_fail, noise_limit(m))) {
      return noisy(Verdict::fail);
    }
    if (m.max_z > limits::outlier_marginal) {
      return outlier(Verdict::marginal);
    }
    if (noise && m.rms_z > noise_limit(m)) {
      return noisy(Verdict::marginal);
    }
    return {};
  }

  bool every_limit_, statistical_, gaussian_;
  const ExpectedTensor& expected_;
};

int64_t heads_of(OutputKind kind, const AttentionShape& shape) {
  return kind == OutputKind::dk || kind == OutputKind::dv ? shape.kv_heads : shape.q_heads;
}

int64_t channels_of(OutputKind kind, const AttentionShape& shape) {
  return kind == OutputKind::lse ? 1 : shape.head_dim;
}

}  // namespace

const char* name(OutputKind kind) {
  switch (kind) {
    case OutputKind::o:
      return "O";
    case OutputKind::lse:
      return "LSE";
    case OutputKind::dq:
      return "dQ";
    case OutputKind::dk:
      return "dK";
    case OutputKind::dv:
      return "dV";
  }
  throw LogicError(join("output ", static_cast<int>(kind), " does not exist"));
}

Measures measure(const ExpectedTensor& expected, const std::function<double(int, int64_t)>& got) {
  Measures m;
  double squares = 0;
  double product = 0;
  double norm = 0;
  double gain_variance = 0;
  double gain_row_variance = 0;
  for (int s = 0; s < 2; ++s) {
    double of_row = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(expected.value[s].size()); ++i) {
      if (i % expected.channels == 0) {
        gain_row_variance += of_row * of_row;
        of_row = 0;
      }
      const double x = expected.value[s][i];
      const double y = got(s, i);
      const double bound = expected.bound[s][i];
      if (!std::isfinite(x) || !std::isfinite(y)) {
        if (x != y && !(std::isnan(x) && std::isnan(y))) {
          m.first_nonfinite = m.nonfinite == 0 ? Place{s, i} : m.first_nonfinite;
          ++m.nonfinite;
        }
        continue;
      }
      if (bound == 0) {
        if (y != x) {
          m.first_not_zero = m.not_zero == 0 ? Place{s, i} : m.first_not_zero;
          ++m.not_zero;
        }
        continue;
      }
      ++m.elements;
      const double error = std::abs(y - x);
      if (error / bound > m.err_over_h) {
        m.err_over_h = error / bound;
        m.worst_bound = {s, i};
      }
      const double sigma = expected.deviation[s][i];
      if (sigma > 0) {
        const double z = error / sigma;
        squares += z * z;
        if (z > m.max_z) {
          m.max_z = z;
          m.worst_z = {s, i};
        }
      }
      product += (y - x) * x;
      norm += x * x;
      gain_variance += sigma * sigma * x * x;
      of_row += sigma * std::abs(x);
    }
    gain_row_variance += of_row * of_row;
  }
  if (m.elements > 0) {
    m.rms_z = std::sqrt(squares / static_cast<double>(m.elements));
  }
  if (norm > 0) {
    m.gain = 1 + product / norm;
    m.gain_deviation = std::sqrt(gain_variance) / norm;
    m.gain_row_deviation = std::sqrt(gain_row_variance) / norm;
  }
  return m;
}

std::string describe(OutputKind kind, const AttentionShape& shape,
                     const Decomposition& decomposition, const Place& place) {
  const int64_t channels = channels_of(kind, shape);
  const int64_t heads = heads_of(kind, shape);
  const int64_t token = place.element / (heads * channels);
  const int rank = decomposition.row_rank[place.stream][token];
  std::string out = rank < 0 ? "no rank" : join("rank ", decomposition.first_rank + rank);
  out += join(", ", name(static_cast<Stream>(place.stream)), " stream, block ",
              decomposition.sequence.block_of(token), ", token ", token, ", head ",
              place.element / channels % heads);
  if (kind != OutputKind::lse) {
    out += join(", channel ", place.element % channels);
  }
  return out;
}

TensorResult judge_tensor(OutputKind kind, const AttentionShape& shape,
                          const Decomposition& decomposition, const ExpectedTensor& expected,
                          const ByStream<double>& got, bool gaussian) {
  return judge_values(name(kind), kind == OutputKind::lse ? JudgedBy::lse : JudgedBy::every_limit,
                      expected, got, gaussian,
                      [&](const Place& at) { return describe(kind, shape, decomposition, at); });
}

TensorResult judge_values(const std::string& tensor, JudgedBy by, const ExpectedTensor& expected,
                          const ByStream<double>& got, bool gaussian,
                          const std::function<std::string(const Place&)>& where) {
  for (int s = 0; s < 2; ++s) {
    require(got[s].size() == expected.value[s].size(), tensor, " of the ",
            name(static_cast<Stream>(s)), " stream has ", got[s].size(), " elements; it must have ",
            expected.value[s].size());
  }
  const auto value = [&](int s, int64_t i) { return got[s][i]; };
  const Judge judge(by, expected, gaussian);
  const Measures m = measure(expected, value);
  TensorResult result;
  result.tensor = tensor;
  result.figures = {{"err_over_h", m.err_over_h}};
  if (by == JudgedBy::lse) {
    double mass = 0;
    for (int s = 0; s < 2; ++s) {
      for (size_t i = 0; i < got[s].size(); ++i) {
        const double x = std::expm1(got[s][i] - expected.value[s][i]);
        mass = std::abs(x) > std::abs(mass) ? x : mass;
      }
    }
    result.figures.emplace_back("lse", mass);
  } else if (by == JudgedBy::every_limit) {
    result.figures.emplace_back("max_z", m.max_z);
    result.figures.emplace_back("rms_z", m.rms_z);
    result.figures.emplace_back("gain_minus_1", m.gain - 1);
  }
  const Finding finding = judge.decide(m, value);
  result.verdict = finding.verdict;
  result.reason = finding.reason;
  if (finding.verdict != Verdict::pass) {
    const Place& at = finding.place;
    result.detail = finding.text;
    if (at.element >= 0) {
      result.detail +=
          join(", at ", where(at), ": ", got[at.stream][at.element], " for ",
               expected.value[at.stream][at.element], ", H ", expected.bound[at.stream][at.element],
               ", sigma ", expected.deviation[at.stream][at.element]);
    }
    if (finding.verdict == Verdict::fail) {
      return result;
    }
  }
  // What a vacuous case would let pass.
  for (const double factor : {0.0, limits::vacuous_factor}) {
    const auto wrong = [&](int s, int64_t i) {
      const double x = expected.value[s][i];
      return std::isfinite(x) ? factor * x : x;
    };
    if (judge.decide(measure(expected, wrong), wrong).verdict != Verdict::fail) {
      result.verdict = Verdict::mistrusted;
      result.reason = Reason::none;
      result.detail = factor == 0 ? "vacuous: zeros would pass"
                                  : join("vacuous: ", factor, " times the right answer would pass");
      break;
    }
  }
  return result;
}

}  // namespace bdlm
