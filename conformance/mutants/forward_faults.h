#pragma once
// Engines whose forward is wrong: how states are begun, merged and reported.

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "reference/math/exact.h"
#include "reference/parallel/cpu_engine.h"

namespace bdlm {

enum class ForwardFault : uint8_t {
  plain_average,      ///< parts count the same, whatever their sums
  rounded_lse,        ///< weights from a merged LSE that has lost half of its digits
  mixed_bases,        ///< the new part's LSE is to another base than the state's
  state_overwritten,  ///< the new part replaces the state
  first_lse_kept,     ///< O is merged, the LSE is not
  sentinel,           ///< "attended nothing" is a finite number
  empty_is_infinite,  ///< an empty row reports the LSE +inf
  unwritten_output,   ///< rows that see nothing are never written
  unwritten_tail,     ///< the last row of an odd number is never written
  truncation,         ///< digits of the part are cut off, not rounded
};

/// x with its last digits cut off: 29 bits in double, what lies below 2^-24 in a rational.
template <class T>
T truncated(const T& x) {
  if constexpr (std::is_same_v<T, double>) {
    int exponent = 0;
    const double fraction = std::frexp(x, &exponent);
    return std::isfinite(x) ? std::ldexp(std::trunc(std::ldexp(fraction, 24)), exponent - 24) : x;
  } else {
    const auto scaled = numerator(x.rational()) * (int64_t{1} << 24) / denominator(x.rational());
    return T(typename T::Rational(scaled, int64_t{1} << 24));
  }
}

/// A log-sum-exp in 32 bits; of a sum that is a whole number, which a rational carries instead, the
/// next multiple of 4.
template <class T>
T rounded_lse(const T& z) {
  if constexpr (std::is_same_v<T, double>) {
    return static_cast<float>(z);
  } else {
    const auto whole = numerator(z.rational()) / denominator(z.rational());
    return T(typename T::Rational((whole + 3) / 4 * 4));
  }
}

/// The same LSE to base 2. A rational carries the sum itself, of which another base is a power.
template <class T>
T lse_to_base_2(const T& z) {
  if constexpr (std::is_same_v<T, double>) {
    return z / std::log(2.0);
  } else {
    return z * z;
  }
}

template <class T>
class ForwardMutant final : public CpuEngine<T> {
 public:
  ForwardMutant(ForwardFault fault, const RankPlan& plan, const AttentionShape& shape,
                const T& scale, const AttentionOptions& options)
      : CpuEngine<T>(plan, shape, scale, options), fault_(fault) {}

  void load(const T* q, const T* k, const T* v) override {
    CpuEngine<T>::load(q, k, v);
    if (fault_ == ForwardFault::sentinel) {
      std::fill(lse_[0].begin(), lse_[0].end(), sentinel());
    } else if (fault_ == ForwardFault::unwritten_output) {
      std::fill(o_[0].begin(), o_[0].end(), poison<T>());
    }
  }

  const std::vector<T>& lse() const override {
    reported_ = lse_[0];
    for (T& z : reported_) {
      if (fault_ == ForwardFault::empty_is_infinite && L::is_empty(z)) {
        if constexpr (std::numeric_limits<T>::has_infinity) {
          z = std::numeric_limits<T>::infinity();
        } else {
          z = poison<T>();
        }
      }
    }
    return reported_;
  }

 protected:
  void attend_pass(const KeyPass& pass, int buffer, int state) override {
    // The base computes the part of these keys alone; the merge is done here.
    std::vector<T>& o = o_[state];
    std::vector<T>& lse = lse_[state];
    const std::vector<T> o_before = o;
    const std::vector<T> lse_before = lse;
    std::fill(o.begin(), o.end(), T(0));
    std::fill(lse.begin(), lse.end(), L::empty());
    CpuEngine<T>::attend_pass(pass, buffer, state);
    const int64_t d = shape_.head_dim;
    for (size_t i = 0; i < lse.size(); ++i) {
      T z = lse_before[i];
      std::vector<T> merged(o_before.begin() + i * d, o_before.begin() + (i + 1) * d);
      if (!L::is_empty(lse[i])) {
        merge_part(merged, z, o.data() + i * d, lse[i]);
      }
      std::copy(merged.begin(), merged.end(), o.begin() + i * d);
      lse[i] = z;
    }
    if (fault_ == ForwardFault::unwritten_tail && pass.rows.size() % 2 == 1) {
      std::fill_n(o.begin() + (pass.rows.end - 1) * this->q_width(), this->q_width(), poison<T>());
    }
  }

 private:
  using L = LogDomain<T>;
  using CpuEngine<T>::lse_;
  using CpuEngine<T>::o_;
  using CpuEngine<T>::shape_;

  static T sentinel() {
    if constexpr (std::is_same_v<T, double>) {
      return -1e30;
    } else {
      return T(1, 1000000000);
    }
  }

  /// Merges a part into (o, z), wrongly.
  void merge_part(std::vector<T>& o, T& z, T* part, T part_z) const {
    const auto d = static_cast<int64_t>(o.size());
    if (fault_ == ForwardFault::mixed_bases) {
      part_z = lse_to_base_2(part_z);
    } else if (fault_ == ForwardFault::truncation) {
      std::transform(part, part + d, part, truncated<T>);
    }
    const T before = z;
    const std::vector<T> o_before = o;
    merge_unchecked(d, o.data(), z, part, part_z);
    if (L::is_empty(before)) {
      return;
    }
    switch (fault_) {
      case ForwardFault::plain_average:
        for (int64_t i = 0; i < d; ++i) {
          o[i] = (o_before[i] + part[i]) / T(2);
        }
        break;
      case ForwardFault::rounded_lse: {
        const T rounded = rounded_lse(z);
        for (int64_t i = 0; i < d; ++i) {
          o[i] = L::ratio(before, rounded) * o_before[i] + L::ratio(part_z, rounded) * part[i];
        }
        break;
      }
      case ForwardFault::state_overwritten:
        std::copy_n(part, d, o.begin());
        z = part_z;
        break;
      case ForwardFault::first_lse_kept:
        z = before;
        break;
      default:
        break;
    }
  }

  ForwardFault fault_;
  mutable std::vector<T> reported_;
};

}  // namespace bdlm
