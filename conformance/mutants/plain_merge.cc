#include "conformance/mutants/plain_backend.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "conformance/mutants/tensor_access.h"

namespace bdlm {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

void PlainBackend::merge_row(std::span<double> o1, double& z1, std::span<const double> o2,
                             double z2) const {
  const auto fill = [&](double o, double z) {
    std::fill(o1.begin(), o1.end(), o);
    z1 = z;
  };
  PlainMerge how = faults_.merge;
  if (how == PlainMerge::ignores_nan) {
    z1 = std::isnan(z1) ? -infinity : z1;
    z2 = std::isnan(z2) ? -infinity : z2;
  }
  if (std::isnan(z1) || std::isnan(z2) || z1 == infinity || z2 == infinity) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    return fill(nan, nan);
  }
  if (z1 == -infinity && z2 == -infinity) {
    return fill(how == PlainMerge::reads_empty ? 0 * o1[0] : 0, -infinity);
  }
  if (z1 == -infinity || z2 == -infinity) {
    const bool first = z2 == -infinity;
    for (size_t i = 0; i < o1.size(); ++i) {
      const double other = how == PlainMerge::reads_empty ? 0 * (first ? o2[i] : o1[i]) : 0;
      o1[i] = (first ? o1[i] : o2[i]) + other;
    }
    z1 = first ? z1 : z2;
    return;
  }
  const double larger = std::max(z1, z2);
  double w1 = std::exp(z1 - larger);
  double w2 = std::exp(z2 - larger);
  double sum = w1 + w2;
  double z = larger + std::log1p(std::min(w1, w2));
  if (how == PlainMerge::average) {
    w1 = w2 = 1;
    sum = 2;
  } else if (how == PlainMerge::rounded_z) {
    w1 = std::exp(round_to(z1, Dtype::bf16) - round_to(larger, Dtype::bf16));
    w2 = std::exp(round_to(z2, Dtype::bf16) - round_to(larger, Dtype::bf16));
    sum = w1 + w2;
  } else if (how == PlainMerge::from_new_z) {
    z = round_to(z, contract_.lse);
    w1 = std::exp(z1 - z);
    w2 = std::exp(z2 - z);
    sum = 1;
  } else if (how == PlainMerge::log_of_sum) {
    z = larger + std::log(round_to(1 + std::min(w1, w2), contract_.accumulate));
  } else if (how == PlainMerge::new_maximum_lost) {
    z = larger;
  } else if (how == PlainMerge::no_maximum) {
    w1 = round_to(std::exp(z1), contract_.accumulate);
    w2 = round_to(std::exp(z2), contract_.accumulate);
    sum = round_to(w1 + w2, contract_.accumulate);
    z = std::log(sum);
  }
  for (size_t i = 0; i < o1.size(); ++i) {
    double second = w2 / sum * o2[i];
    if (how == PlainMerge::order_matters) {
      second = round_to(second, contract_.accumulate);
    }
    o1[i] = w1 / sum * o1[i] + second;
  }
  z1 = z;
}

bdlm_status PlainBackend::merge(void* /*context*/, const bdlm_merge_args& args) {
  if (args.size < sizeof(args) || args.o == nullptr || args.lse == nullptr) {
    return BDLM_INVALID;
  }
  const TensorAccess o_a(args.o_a), o_b(args.o_b), z_a(args.lse_a), z_b(args.lse_b);
  const TensorAccess o(args.o), lse(args.lse);
  const int64_t d = o.size(2);
  std::vector<double> a(d), b(d);
  for (int64_t i = 0; i < o.size(0); ++i) {
    for (int64_t h = 0; h < o.size(1); ++h) {
      double z = z_a.get(i, h);
      for (int64_t c = 0; c < d; ++c) {
        a[c] = o_a.get(i, h, c);
        b[c] = o_b.get(i, h, c);
      }
      merge_row(a, z, b, z_b.get(i, h));
      for (int64_t c = 0; c < d; ++c) {
        o.set(a[c], i, h, c, faults_.rounding);
      }
      lse.set(z, i, h);
    }
  }
  return BDLM_OK;
}

}  // namespace bdlm
