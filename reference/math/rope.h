#pragma once
// Rotary position embedding, rotate-half: channels i and i + D/2 of a head turn by the angle
// position * theta^(-2i/D).

#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>

#include "reference/base/error.h"
#include "reference/base/parallel_for.h"
#include "reference/math/dual.h"

namespace bdlm {

/// The type that angles are computed in. An angle's rounding error grows with the position, so that
/// double takes its angles from extended precision; angles are constants to dual numbers.
template <class T>
struct RopeAngle {
  using type = std::conditional_t<std::is_same_v<T, double>, long double, T>;
};
template <class T>
struct RopeAngle<Dual<T>> : RopeAngle<T> {};

/// Turns x (rows, heads, head_dim) in place by +angle (sign 1) or -angle (sign -1).
template <class T>
void rotate(int sign, int64_t heads, int64_t head_dim, double theta,
            std::span<const int64_t> positions, T* x) {
  using A = typename RopeAngle<T>::type;
  require(head_dim >= 2 && head_dim % 2 == 0, "head_dim is ", head_dim,
          "; rotary embedding needs an even number of at least 2");
  require(theta > 0, "rotary theta is ", theta, "; it must be positive");
  const int64_t half = head_dim / 2;
  std::vector<A> frequencies(half);
  for (int64_t i = 0; i < half; ++i) {
    using std::exp;
    using std::log;
    frequencies[i] = exp(-A(2 * i) / A(head_dim) * log(A(theta)));
  }
  parallel_for(static_cast<int64_t>(positions.size()), [&](int64_t row, int) {
    for (int64_t i = 0; i < half; ++i) {
      using std::cos;
      using std::sin;
      const A angle = A(positions[row]) * frequencies[i];
      const T c(static_cast<T>(cos(angle)));
      const T s(static_cast<T>(A(sign) * sin(angle)));
      for (int64_t head = 0; head < heads; ++head) {
        T* at = x + (row * heads + head) * head_dim + i;
        const T a = at[0];
        const T b = at[half];
        at[0] = a * c - b * s;
        at[half] = b * c + a * s;
      }
    }
  });
}

/// x (rows, heads, head_dim), in place; `positions` (rows). Throws InputError on an odd head_dim or
/// theta <= 0.
template <class T>
void rope_forward(int64_t heads, int64_t head_dim, double theta, std::span<const int64_t> positions,
                  T* x) {
  rotate(1, heads, head_dim, theta, positions, x);
}

/// The gradient of the output, shaped as x, becomes that of the input: a rotation's transpose is
/// its inverse.
template <class T>
void rope_backward(int64_t heads, int64_t head_dim, double theta,
                   std::span<const int64_t> positions, T* dx) {
  rotate(-1, heads, head_dim, theta, positions, dx);
}

}  // namespace bdlm
