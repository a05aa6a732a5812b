#include "optimized/cpu/merge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "optimized/cpu/aligned.h"
#include "optimized/cpu/parallel_units.h"
#include "reference/base/error.h"

namespace bdlm::cpu {
namespace {

/// Rows are dealt to threads in runs of this many.
constexpr int64_t rows_per_unit = 64;

/// o may be the same array, but overlaps no other way.
void copy(int64_t d, const float* from, float* to) {
  if (from != to) {
    std::copy_n(from, d, to);
  }
}

}  // namespace

void merge_row(int64_t d, const float* o1, float z1, const float* o2, float z2, float* o,
               float* z) {
  if (std::isnan(z1) || std::isnan(z2) || z1 == infinity || z2 == infinity) {
    *z = std::numeric_limits<float>::quiet_NaN();
    std::fill_n(o, d, *z);
    return;
  }
  if (z2 == -infinity) {
    if (z1 == -infinity) {
      std::fill_n(o, d, 0.0F);
    } else {
      copy(d, o1, o);
    }
    *z = z1;
    return;
  }
  if (z1 == -infinity) {
    copy(d, o2, o);
    *z = z2;
    return;
  }
  if (z1 < z2) {
    std::swap(o1, o2);
    std::swap(z1, z2);
  }
  const double w = std::exp(static_cast<double>(z2) - static_cast<double>(z1));
  const double l = 1 + w;
  const auto c1 = static_cast<float>(1 / l);
  const auto c2 = static_cast<float>(w / l);
  for (int64_t i = 0; i < d; ++i) {
    o[i] = c1 * o1[i] + c2 * o2[i];
  }
  *z = static_cast<float>(static_cast<double>(z1) + std::log1p(w));
}

void merge(const bdlm_merge_args& args) {
  require(args.size >= sizeof(bdlm_merge_args), "the arguments have ", args.size,
          " bytes; this version has ", sizeof(bdlm_merge_args));
  const TensorView o_a = TensorView::of(args.o_a, "o_a", 3, {Element::fp32});
  const TensorView o_b = TensorView::of(args.o_b, "o_b", 3, {Element::fp32});
  const TensorView o = TensorView::of(args.o, "o", 3, {Element::fp32});
  const TensorView lse_a = TensorView::of(args.lse_a, "lse_a", 2, {Element::fp32});
  const TensorView lse_b = TensorView::of(args.lse_b, "lse_b", 2, {Element::fp32});
  const TensorView lse = TensorView::of(args.lse, "lse", 2, {Element::fp32});
  const int64_t rows = o_a.size(0);
  const int64_t heads = o_a.size(1);
  const int64_t d = o_a.size(2);
  o_b.expect("o_b", {rows, heads, d});
  o.expect("o", {rows, heads, d});
  lse_a.expect("lse_a", {rows, heads});
  lse_b.expect("lse_b", {rows, heads});
  lse.expect("lse", {rows, heads});
  parallel_units(rows, rows_per_unit, [&](int64_t, int64_t begin, int64_t end) {
    std::vector<float> a(d);
    std::vector<float> b(d);
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t head = 0; head < heads; ++head) {
        float z_a = 0;
        float z_b = 0;
        lse_a.load(1, &z_a, row, head);
        lse_b.load(1, &z_b, row, head);
        o_a.load(d, a.data(), row, head);
        o_b.load(d, b.data(), row, head);
        merge_row(d, a.data(), z_a, b.data(), z_b, a.data(), &z_a);
        o.store(d, a.data(), row, head);
        lse.store(1, &z_a, row, head);
      }
    }
  });
}

}  // namespace bdlm::cpu
