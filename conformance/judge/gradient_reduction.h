#pragma once
// The roundings of a partial gradient on its way to the sum over ranks.

#include <cstdint>
#include <vector>

#include "conformance/judge/contract.h"
#include "conformance/judge/decomposition.h"

namespace bdlm {

/// Ranks in the order in which a ring or a fixed order adds their parts. A ring ends at the owner.
inline std::vector<int> order_of_ranks(ReduceOrder order, int ranks, int owner) {
  std::vector<int> out;
  for (int i = 0; i < ranks; ++i) {
    out.push_back(order == ReduceOrder::ring ? (owner + 1 + i) % ranks : i);
  }
  return out;
}

/// One element: by rank its part, and whether the rank has rows that see the key at all.
struct PartialGradients {
  std::vector<double> part;
  std::vector<char> used;
};

/// What is rounded, in absolute values and in squares. Multiply by u, and by kappa u^2.
struct ReductionTerms {
  double terms = 0;
  double squares = 0;
};

/// The cast of every part to the travelling format, and every sum that is rounded to it:
///
///   ring, fixed   sum |part_r| + sum over r of |part_1 + ... + part_r|, in the order of adding
///   tree          sum |part_r| (1 + ceil(log2 w))
///
/// In squares, a sum with a rank that has nothing is not rounded.
inline ReductionTerms low_precision_reduction(ReduceOrder order, int owner,
                                              const PartialGradients& x) {
  ReductionTerms out;
  const int ranks = static_cast<int>(x.part.size());
  for (int r = 0; r < ranks; ++r) {
    out.terms += std::abs(x.part[r]);
    out.squares += x.part[r] * x.part[r];
  }
  if (order == ReduceOrder::tree) {
    std::vector<double> sums = x.part;
    std::vector<char> used = x.used;
    const double cast = out.terms;
    // Neighbours in pairs, level by level; an odd one moves up as it is.
    while (sums.size() > 1) {
      out.terms += cast;
      size_t n = 0;
      for (size_t i = 0; i < sums.size(); i += 2, ++n) {
        const bool pair = i + 1 < sums.size();
        const double sum = sums[i] + (pair ? sums[i + 1] : 0);
        out.squares += pair && used[i] != 0 && used[i + 1] != 0 ? sum * sum : 0;
        used[n] = used[i] != 0 || (pair && used[i + 1] != 0) ? 1 : 0;
        sums[n] = sum;
      }
      sums.resize(n);
    }
    return out;
  }
  double sum = 0;
  bool before = false;
  for (const int r : order_of_ranks(order, ranks, owner)) {
    sum += x.part[r];
    out.terms += before ? std::abs(sum) : 0;
    out.squares += before && x.used[r] != 0 ? sum * sum : 0;
    before = before || x.used[r] != 0;
  }
  return out;
}

}  // namespace bdlm
