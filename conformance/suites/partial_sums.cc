#include "conformance/suites/partial_sums.h"

#include <string>

#include "conformance/judge/gradient_reduction.h"
#include "conformance/judge/rounding.h"

namespace bdlm {
namespace {

void copy_parts(void* dst, const void* src, int64_t count) {
  std::copy_n(static_cast<const RankParts*>(src), count, static_cast<RankParts*>(dst));
}

void add_parts(void* dst, const void* src, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const RankParts& from = static_cast<const RankParts*>(src)[i];
    RankParts& to = static_cast<RankParts*>(dst)[i];
    to.insert(to.end(), from.begin(), from.end());
  }
}

void* parts_at(void* data, int64_t index) {
  return static_cast<RankParts*>(data) + index;
}

/// One description for each format, made of `like` but for name and size.
std::vector<ElementType> by_dtype(ElementType like) {
  std::vector<ElementType> out;
  for (const Dtype dtype : {Dtype::bf16, Dtype::fp16, Dtype::fp32, Dtype::f64}) {
    like.name = name(dtype).data();
    like.bytes = size_of(dtype);
    like.trivial = false;
    out.push_back(like);
  }
  return out;
}

}  // namespace

const ElementType* rank_parts_type(Dtype dtype) {
  static const std::vector<ElementType> types =
      by_dtype({"", 0, false, copy_parts, add_parts, parts_at});
  return &types[static_cast<size_t>(dtype)];
}

const ElementType* number_type(Dtype dtype) {
  static const std::vector<ElementType> types = by_dtype(*element_type<double>());
  return &types[static_cast<size_t>(dtype)];
}

double reduce(const Contract& contract, const RankParts& parts, int owner) {
  const auto rounded = [&](double x) { return round_to(x, contract.reduce); };
  std::vector<double> sums;
  for (const double part : parts) {
    sums.push_back(rounded(part));
  }
  if (contract.reduce_order == ReduceOrder::tree) {
    // Neighbours in pairs, level by level; an odd one moves up as it is.
    while (sums.size() > 1) {
      size_t n = 0;
      for (size_t i = 0; i < sums.size(); i += 2, ++n) {
        sums[n] = i + 1 < sums.size() ? rounded(sums[i] + sums[i + 1]) : sums[i];
      }
      sums.resize(n);
    }
    return sums.at(0);
  }
  bool first = true;
  double sum = 0;
  for (const int rank :
       order_of_ranks(contract.reduce_order, static_cast<int>(parts.size()), owner)) {
    sum = first ? sums[rank] : rounded(sum + sums[rank]);
    first = false;
  }
  return sum;
}

}  // namespace bdlm
