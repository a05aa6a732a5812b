// Merge vectors: n partial states of the same rows, merged in order.

#include "conformance/golden/golden_vector.h"
#include "conformance/judge/error_model.h"
#include "reference/base/philox.h"
#include "reference/base/special_values.h"
#include "reference/math/merge.h"
#include "reference/math/quad.h"

namespace bdlm {
namespace {

/// Two sides of one row: what every channel of O holds, and z.
struct Edge {
  double o1, z1, o2, z2;
};

/// The cases at which merges break, a row each. Channel c holds (1 - c / 8) times the O given.
const std::vector<Edge>& edges() {
  static const double largest = 0x1.fffffp127;  // FLT_MAX (1 - 2^-21)
  static const std::vector<Edge> rows{
      {0, -infinity, 0, -infinity},                  // both empty
      {nan_value, -infinity, 1.5, -3},               // an empty side whose O is garbage
      {-2.5, 4, nan_value, -infinity},               // the same on the other side
      {nan_value, -infinity, nan_value, -infinity},  // both
      {1e8f, -100, 1, 100},                          // gives 1
      {1, 0, -1, 88.75},       // exp of the difference just below the largest float
      {1, 0, -1, 89},          // and above
      {3, 200, 5, 0},          // a share that no float holds
      {1, 1e4, 3, 1e4},        // exp of z overflows
      {1, -1e30f, 3, -1e30f},  // and underflows
      {1, nan_value, 2, 0},    // a broken part
      {2, 0, 1, nan_value},
      {1, nan_value, 0, -infinity},     // also against an empty one
      {1, infinity, 2, 0},              // not a log-sum-exp
      {largest, 0, largest, 0},         // O near the largest float
      {largest, 1, -largest, 1},        // cancels
      {1, 0, 1.5, -16.63553237915039},  // a share of 2^-24
      {2, -60000, 7, -60001},           // 0.731 and 0.269
  };
  return rows;
}

/// (parts, R, H, D) and (parts, R, H)
struct Parts {
  std::vector<double> o, z;
};

Parts parts_of(const MergeVector& v, uint64_t seed) {
  Parts out;
  const Philox o(seed, 0);
  const Philox z(seed, 1);
  const int64_t rows = v.rows * v.heads;
  for (int64_t i = 0; i < v.parts * rows; ++i) {
    const int64_t part = i / rows;
    const int64_t row = i % rows;
    double lse = 4 * z.gaussian(i);
    switch (v.kind) {
      case MergeKind::gauss:
        break;
      case MergeKind::apart:
        lse += (row + part) % 2 == 0 ? 40 : -40;
        break;
      case MergeKind::edges:
        lse = part == 0 ? edges()[row].z1 : edges()[row].z2;
        break;
      case MergeKind::tiny:
        // float(log 2^-24); every part adds the same share.
        lse = part == 0 ? 0 : -16.63553237915039;
        break;
    }
    out.z.push_back(round_to(lse, Dtype::fp32));
    for (int64_t c = 0; c < v.head_dim; ++c) {
      double x = o.gaussian(i * v.head_dim + c);
      if (v.kind == MergeKind::edges) {
        x = (part == 0 ? edges()[row].o1 : edges()[row].o2) * (1 - static_cast<double>(c) / 8);
      } else if (v.kind == MergeKind::tiny) {
        x = part == 0 ? 0 : 1 - static_cast<double>(c) / 8;
      }
      out.o.push_back(round_to(x, Dtype::fp32));
    }
  }
  return out;
}

/// One row's state with its errors, merged part by part. Deviations of merges in a row are added as
/// they are, not as independent ones: equal merges round alike.
class MergeBounds {
 public:
  MergeBounds(const Contract& contract, int64_t d)
      : contract_(contract), model_(contract, d), o_(d), bound_(d, 0), deviation_(d, 0) {}

  /// With w = exp(z2 - z1), l = 1 + w, the shares a = 1/l and b = w/l. What is off in z2 - z1 by x
  /// moves O by at most a b |exp(x) - 1| |o1 - o2|.
  void add(const double* o, double z, bool last) {
    if (z == -infinity) {
      return;  // the identity changes no bit
    }
    if (z_ == -infinity) {
      std::copy_n(o, o_.size(), o_.begin());
      z_ = z;
      return;
    }
    const double u = model_.u();
    const double apart = std::abs(z - z_);
    const double a = 1 / (1 + std::exp(z - z_));
    const double b = 1 / (1 + std::exp(z_ - z));
    // exp, 1 + w, two divisions, a product and the sum: each of a share and its O
    const double roundings = limits::exp_roundings + 5;
    const double exponent = std::expm1(z_bound_ + u * apart);
    const double root = std::sqrt(limits::rounding_variance);
    const double u_part = model_.site(last ? contract_.o : contract_.partial_o);
    const double tiny = ErrorModel::tiny(contract_.accumulate);
    for (size_t c = 0; c < o_.size(); ++c) {
      const double size = std::abs(a * o_[c]) + std::abs(b * o[c]);
      const double difference = a * b * std::abs(o_[c] - o[c]);
      double bound = a * bound_[c] + difference * exponent + size * roundings * u +
                     tiny * (std::abs(o_[c]) + std::abs(o[c]) + 1);
      double deviation = a * deviation_[c] + difference * (z_deviation_ + root * u * apart) +
                         root * u * std::sqrt(roundings) * size + tiny;
      o_[c] = a * o_[c] + b * o[c];
      bound += u_part * (std::abs(o_[c]) + bound) + (u_part > 0 ? limits::flush_to_zero : 0);
      deviation += root * u_part * std::abs(o_[c]);
      bound_[c] = bound;
      deviation_[c] = deviation;
    }
    // z = larger + log1p(w): what was off by its share; w's error moves z by the smaller share;
    // log1p and the sum round.
    const double next = std::max(z, z_) + std::log1p(std::exp(-apart));
    const double small = std::min(a, b);
    const double own = small * (u * apart + limits::exp_roundings * u) +
                       u * (std::abs(next) + limits::exp_roundings * std::log1p(std::exp(-apart)));
    z_bound_ = a * z_bound_ + own;
    z_deviation_ = a * z_deviation_ + root * own;
    z_ = next;
  }

  /// What was never merged is rounded to the format of O alone.
  void write() {
    const double u = model_.site(contract_.o);
    for (size_t c = 0; c < o_.size(); ++c) {
      if (bound_[c] == 0 && u > 0 && o_[c] != 0) {
        bound_[c] = u * std::abs(o_[c]) + limits::flush_to_zero;
        deviation_[c] = std::sqrt(limits::rounding_variance) * u * std::abs(o_[c]);
      }
    }
  }

  double z_bound() const { return z_bound_; }
  double z_deviation() const { return z_deviation_; }
  double bound(size_t c) const { return bound_[c]; }
  double deviation(size_t c) const { return deviation_[c]; }

 private:
  const Contract& contract_;
  ErrorModel model_;
  std::vector<double> o_, bound_, deviation_;
  double z_ = -infinity;
  double z_bound_ = 0;
  double z_deviation_ = 0;
};

/// Adds one expected element; where it is not a number there is no bound.
void push(OutputTensor& t, const Quad& value, double bound, double deviation) {
  const auto x = static_cast<double>(value);
  const bool finite = std::isfinite(x);
  t.value.push_back(x);
  t.bound.push_back(finite ? bound : 0);
  t.deviation.push_back(finite ? deviation : 0);
}

}  // namespace

GoldenVector make_merge(const GoldenCase& c, Making making) {
  const auto& v = std::get<MergeVector>(c.what);
  const Contract contract = builtin_contract(c.contract);
  const Parts parts = parts_of(v, c.seed);
  GoldenVector out;
  out.inputs = {{"o_parts", {v.parts, v.rows, v.heads, v.head_dim}, DType::f32, parts.o},
                {"lse_parts", {v.parts, v.rows, v.heads}, DType::f32, parts.z}};
  if (making == Making::inputs) {
    return out;
  }
  OutputTensor o{"o", {v.rows, v.heads, v.head_dim}, {}, {}, {}};
  OutputTensor lse{"lse", {v.rows, v.heads}, {}, {}, {}};
  const int64_t rows = v.rows * v.heads;
  const int64_t d = v.head_dim;
  for (int64_t row = 0; row < rows; ++row) {
    MergeBounds bounds(contract, d);
    std::vector<Quad> state(d, Quad(0));
    Quad z = LogDomain<Quad>::empty();
    for (int64_t part = 0; part < v.parts; ++part) {
      const double* from = &parts.o[(part * rows + row) * d];
      const double from_z = parts.z[part * rows + row];
      const std::vector<Quad> wide(from, from + d);
      merge_unchecked<Quad>(d, state.data(), z, wide.data(), Quad(from_z));
      bounds.add(from, from_z, part + 1 == v.parts);
    }
    bounds.write();
    push(lse, z, bounds.z_bound(), bounds.z_deviation());
    for (int64_t i = 0; i < d; ++i) {
      push(o, state[i], bounds.bound(i), bounds.deviation(i));
    }
  }
  out.outputs = {std::move(o), std::move(lse)};
  return out;
}

}  // namespace bdlm
