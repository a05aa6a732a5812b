#pragma once
// The values of double that have names instead of digits.

#include <limits>

namespace bdlm {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

}  // namespace bdlm
