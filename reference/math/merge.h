#pragma once
// The merge of two partial attention states: one row attended two disjoint sets of keys.

#include <cstdint>

#include "reference/base/error.h"
#include "reference/math/log_domain.h"

namespace bdlm {

/// `merge` without its input check: a z of +inf, which no finite attention yields, gives NaN. For
/// use inside parallel loops, where nothing may throw.
template <class T>
void merge_unchecked(int64_t d, T* o1, T& z1, const T* o2, const T& z2) {
  using L = LogDomain<T>;
  const bool infinite = L::is_positive_infinity(z1) || L::is_positive_infinity(z2);
  if (infinite || L::is_nan(z1) || L::is_nan(z2)) {
    const T nan = L::not_a_number();
    z1 = nan;
    for (int64_t i = 0; i < d; ++i) {
      o1[i] = nan;
    }
    return;
  }
  const bool first_empty = L::is_empty(z1);
  const bool second_empty = L::is_empty(z2);
  if (first_empty || second_empty) {
    if (first_empty) {
      for (int64_t i = 0; i < d; ++i) {
        o1[i] = second_empty ? T(0) : o2[i];
      }
      z1 = second_empty ? L::empty() : z2;
    }
    return;
  }
  // Ordered by z, so that both argument orders do the same arithmetic. The weights come from the
  // ratio of the two sums, never from the new z, whose rounding they would inherit; they are
  // normalised before they multiply, so that no intermediate exceeds the larger |O|.
  const bool first_larger = !L::less(z1, z2);
  const T w = first_larger ? L::ratio(z2, z1) : L::ratio(z1, z2);
  const T l = T(1) + w;
  const T of_larger = T(1) / l;
  const T of_smaller = w / l;
  const T c1 = first_larger ? of_larger : of_smaller;
  const T c2 = first_larger ? of_smaller : of_larger;
  for (int64_t i = 0; i < d; ++i) {
    o1[i] = c1 * o1[i] + c2 * o2[i];
  }
  z1 = L::grow(first_larger ? z1 : z2, w);
}

/// Merges the state (o2, z2) into (o1, z1): normalised outputs (d) and log-sum-exps of one row over
/// disjoint key sets. With the sides ordered so that z1 >= z2:
///
///   w = exp(z2 - z1),  l = 1 + w,  O = (1/l) O1 + (w/l) O2,  z = z1 + log1p(w)
///
/// (0, -inf) is the identity: it returns the other side bit for bit, and the O of a side with
/// z = -inf is never read as a number. Commutative bit for bit. A NaN z on either side gives NaN,
/// whatever the other side is. Throws InputError if a z is +inf.
template <class T>
void merge(int64_t d, T* o1, T& z1, const T* o2, const T& z2) {
  using L = LogDomain<T>;
  require(!L::is_positive_infinity(z1) && !L::is_positive_infinity(z2),
          "a log-sum-exp to be merged is +inf; it must be finite, or -inf for no keys");
  merge_unchecked(d, o1, z1, o2, z2);
}

/// Row by row: o1, o2 (rows, d); z1, z2 (rows).
template <class T>
void merge_rows(int64_t rows, int64_t d, T* o1, T* z1, const T* o2, const T* z2) {
  for (int64_t r = 0; r < rows; ++r) {
    merge(d, o1 + r * d, z1[r], o2 + r * d, z2[r]);
  }
}

}  // namespace bdlm
