#include "conformance/doors/compare_runs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "conformance/judge/limits.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out;
  for (size_t i = 0; i < shape.size(); ++i) {
    out += join(i == 0 ? "" : ", ", shape[i]);
  }
  return "(" + out + ")";
}

/// A quotient of small integers that `x` is but for `tolerance`, or the number itself.
std::string factor_text(double x, double tolerance) {
  for (int64_t q = 1; q <= 16; ++q) {
    const double p = std::round(x * static_cast<double>(q));
    const double near = p / static_cast<double>(q);
    if (p != 0 && std::abs(p) <= 64 && std::abs(x - near) <= tolerance * std::abs(x)) {
      return q == 1 ? join(p) : join(near, " (", p, "/", q, ")");
    }
  }
  return join(x);
}

double row_norm(const std::vector<double>& x, int64_t row, int64_t width) {
  double sum = 0;
  for (int64_t i = row * width; i < (row + 1) * width; ++i) {
    sum += x[i] * x[i];
  }
  return std::sqrt(sum);
}

double row_distance(const std::vector<double>& a, int64_t row_a, const std::vector<double>& b,
                    int64_t row_b, int64_t width) {
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) {
    const double d = b[row_b * width + i] - a[row_a * width + i];
    sum += d * d;
  }
  return std::sqrt(sum);
}

/// What the rows along the first axis say.
class Rows {
 public:
  Rows(const std::vector<int64_t>& shape, const std::vector<double>& a,
       const std::vector<double>& b, double limit)
      : a_(a), b_(b), limit_(limit) {
    rows_ = shape.empty() ? 1 : shape[0];
    width_ = static_cast<int64_t>(a.size()) / std::max<int64_t>(rows_, 1);
    double norm = 0;
    for (int64_t r = 0; r < rows_; ++r) {
      norm = std::max(norm, row_norm(a, r, width_));
    }
    for (int64_t r = 0; r < rows_; ++r) {
      // A row of next to nothing is rounding errors of the others.
      const double size = std::max(row_norm(a, r, width_), limit * norm);
      if (row_distance(a, r, b, r, width_) > limits::compare_marginal * limit * size) {
        wrong_.push_back(r);
      }
    }
  }

  /// The largest share of wrong rows that is still worth naming.
  std::string diagnosis() const {
    if (rows_ < 2 || wrong_.empty()) {
      return "";
    }
    std::string order = another_order();
    if (!order.empty()) {
      return order;
    }
    const auto count = static_cast<int64_t>(wrong_.size());
    if (2 * count > rows_) {
      return "";
    }
    const std::string zero = all_zero() ? ", which are zero in B" : "";
    if (wrong_.back() - wrong_.front() + 1 == count) {
      return count == 1 ? join("only row ", wrong_.front(), " of axis 0 differs", zero)
                        : join("only rows [", wrong_.front(), ",", wrong_.back() + 1,
                               ") of axis 0 differ", zero);
    }
    return join("only ", count, " of ", rows_, " rows of axis 0 differ, from ", wrong_.front(),
                " to ", wrong_.back(), zero);
  }

 private:
  bool all_zero() const {
    return std::all_of(wrong_.begin(), wrong_.end(),
                       [&](int64_t r) { return row_norm(b_, r, width_) == 0; });
  }

  /// Whether the wrong rows of B are rows of A that stand elsewhere.
  std::string another_order() const {
    if (width_ < 2 || wrong_.size() < 2 || rows_ > limits::compare_rows) {
      return "";
    }
    const int64_t row = wrong_.front();
    for (const int64_t other : wrong_) {
      const double size = row_norm(a_, other, width_);
      if (other != row && size > 0 &&
          row_distance(a_, other, b_, row, width_) <= limits::compare_marginal * limit_ * size) {
        return join("row ", row, " of B is row ", other, " of A: another order");
      }
    }
    return "";
  }

  const std::vector<double>& a_;
  const std::vector<double>& b_;
  double limit_;
  int64_t rows_ = 1;
  int64_t width_ = 1;
  std::vector<int64_t> wrong_;
};

std::string diagnose(const std::vector<int64_t>& shape, const std::vector<double>& a,
                     const std::vector<double>& b, const Difference& d, double limit) {
  if (d.norm_b == 0 || d.norm_a == 0) {
    return d.norm_b == 0 ? "B is zero" : "A is zero";
  }
  const double gain = 1 + d.gain_minus_1;
  if (gain != 0) {
    double rest = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const double x = b[i] - gain * a[i];
      rest += x * x;
    }
    if (std::sqrt(rest) <= limits::compare_marginal * limit * d.norm_b) {
      return join("B is A x ", factor_text(gain, limits::compare_marginal * limit));
    }
  }
  return Rows(shape, a, b, limit).diagnosis();
}

}  // namespace

double relative_limit(const CompareOptions& options) {
  const Contract& c = options.contract;
  const double accumulate = unit_roundoff(c.accumulate);
  double coarsest = accumulate;
  for (const Dtype site : {c.p, c.ds, c.o, c.partial_o, c.gradient, c.reduce}) {
    coarsest = std::max(coarsest, unit_roundoff(site));
  }
  const auto layers = static_cast<double>(options.layers);
  const auto terms = static_cast<double>(options.terms);
  return (limits::compare_roundings * coarsest +
          limits::chain_deviations * std::sqrt(terms) * accumulate) *
         std::sqrt(layers);
}

Difference difference(const std::vector<double>& a, const std::vector<double>& b) {
  require(a.size() == b.size(), "tensors of ", a.size(), " and ", b.size(),
          " elements are compared; the numbers must be equal");
  Difference d;
  d.elements = static_cast<int64_t>(a.size());
  // Sums of squares are of scaled numbers, so that they neither overflow nor vanish.
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (const double x : {a[i], b[i]}) {
      largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : largest;
    }
  }
  const double unit = largest > 0 ? largest : 1;
  double aa = 0;
  double bb = 0;
  double ab = 0;
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) {
        d.first_nonfinite = d.nonfinite == 0 ? static_cast<int64_t>(i) : d.first_nonfinite;
        ++d.nonfinite;
      }
      continue;
    }
    const double x = a[i] / unit;
    const double y = b[i] / unit;
    const double error = std::abs(b[i] - a[i]);
    if (error > d.max_abs) {
      d.max_abs = error;
      d.worst = static_cast<int64_t>(i);
    }
    aa += x * x;
    bb += y * y;
    ab += x * y;
    squares += (y - x) * (y - x);
  }
  d.norm_a = std::sqrt(aa) * unit;
  d.norm_b = std::sqrt(bb) * unit;
  if (aa > 0) {
    d.relative = std::sqrt(squares / aa);
    d.gain_minus_1 = ab / aa - 1;
    d.cosine = bb > 0 ? ab / std::sqrt(aa * bb) : 0;
  } else if (bb > 0) {
    d.relative = std::numeric_limits<double>::infinity();
    d.cosine = 0;
  }
  return d;
}

TensorResult compare_tensor(const std::string& name, const std::vector<int64_t>& shape,
                            const std::vector<double>& a, const std::vector<double>& b,
                            const CompareOptions& options) {
  const Difference d = difference(a, b);
  const double limit = relative_limit(options);
  TensorResult result;
  result.tensor = name;
  result.figures = {{"relative_l2", d.relative},      {"limit", limit},
                    {"max_abs", d.max_abs},           {"cosine", d.cosine},
                    {"gain_minus_1", d.gain_minus_1}, {"nonfinite", d.nonfinite}};
  const auto decide = [&](Verdict verdict, Reason reason, const std::string& text) {
    result.verdict = verdict;
    result.reason = reason;
    result.detail = text;
  };
  const auto worst = [&](int64_t i) {
    return join(" at ", "[" + index_text(i, shape) + "]", ": ", a[i], " and ", b[i]);
  };
  if (d.nonfinite > 0) {
    decide(Verdict::fail, Reason::nonfinite,
           join(d.nonfinite, " values are NaN or infinite in one run alone, first",
                worst(d.first_nonfinite)));
    return result;
  }
  if (d.worst >= 0) {
    result.figures.emplace_back("worst", "[" + index_text(d.worst, shape) + "]");
  }
  // The deviation of a gain whose errors are independent is that of one error over sqrt(N).
  double coarsest = unit_roundoff(options.contract.accumulate);
  for (const Dtype site : {options.contract.o, options.contract.gradient}) {
    coarsest = std::max(coarsest, unit_roundoff(site));
  }
  const double gain_limit =
      std::max(2 * coarsest / limits::gain_unit_share,
               limits::gain_deviations * std::min(d.relative, limit) /
                   std::sqrt(static_cast<double>(std::max<int64_t>(1, d.elements))));
  const bool scaled = d.elements >= limits::gain_elements && std::abs(d.gain_minus_1) > gain_limit;
  const auto text = [&](const char* what) {
    const std::string diagnosis = diagnose(shape, a, b, d, limit);
    return join(diagnosis, diagnosis.empty() ? "" : "; ", what, d.relative,
                ", where two runs of the contract differ by up to ", limit, "; largest difference",
                worst(d.worst));
  };
  if (d.relative > limits::compare_marginal * limit) {
    const std::string diagnosis = diagnose(shape, a, b, d, limit);
    decide(Verdict::fail, diagnosis.rfind("B is A x", 0) == 0 ? Reason::scale : Reason::bound,
           text("relative L2 error "));
  } else if (scaled) {
    decide(Verdict::fail, Reason::scale,
           join("B is A x ", factor_text(1 + d.gain_minus_1, gain_limit), ", where +-", gain_limit,
                " is allowed"));
  } else if (d.relative > limit) {
    decide(Verdict::marginal, Reason::bound, text("relative L2 error "));
  }
  return result;
}

CaseResult compare_files(const std::string& path_a, const std::string& path_b,
                         const CompareOptions& options) {
  const SafetensorsFile a(path_a);
  const SafetensorsFile b(path_b);
  CaseResult result;
  result.id = join(printable(path_a, 400), ' ', printable(path_b, 400));
  result.tier = "compare";
  std::set<std::string> names;
  for (const SafetensorsFile* file : {&a, &b}) {
    for (const TensorInfo& info : file->tensors()) {
      names.insert(info.name);
    }
  }
  for (const std::string& tensor : names) {
    const TensorInfo* in_a = a.find(tensor);
    const TensorInfo* in_b = b.find(tensor);
    const auto failed = [&](const std::string& detail) {
      result.add({tensor, Verdict::fail, Reason::coverage, {}, detail});
    };
    if (in_a == nullptr || in_b == nullptr) {
      failed(join("missing tensor: ", in_a == nullptr ? "A" : "B", " does not have it"));
      continue;
    }
    if (in_a->shape != in_b->shape) {
      failed(join("the shapes are ", shape_text(in_a->shape), " and ", shape_text(in_b->shape)));
      continue;
    }
    const auto floating = [](DType t) {
      return t == DType::f64 || t == DType::f32 || t == DType::f16 || t == DType::bf16;
    };
    if (!floating(in_a->dtype) || !floating(in_b->dtype)) {
      if (in_a->dtype != in_b->dtype || a.bytes(tensor) != b.bytes(tensor)) {
        failed(join("integers differ (", name(in_a->dtype), " and ", name(in_b->dtype), ")"));
      } else {
        result.add({tensor, Verdict::pass, Reason::none, {}, ""});
      }
      continue;
    }
    result.add(compare_tensor(tensor, in_a->shape, a.read<double>(tensor), b.read<double>(tensor),
                              options));
  }
  require(!names.empty(), printable(path_a, 400), ": there is no tensor to compare");
  return result;
}

}  // namespace bdlm
