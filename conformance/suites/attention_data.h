#pragma once
// Data for one attention layer: ordinary, and of the kinds at which implementations break.

#include <cmath>
#include <cstdint>

#include "conformance/judge/attention_arrays.h"
#include "reference/base/philox.h"
#include "reference/layout/band.h"

namespace bdlm {

enum class DataKind : uint8_t {
  gauss,         ///< deviation 1.155 in every tensor
  integers,      ///< small integers, none of them 0: for exact arithmetic
  scores_80,     ///< scores up to about +-80
  scores_1e4,    ///< scores up to about +-1e4: one key takes all
  local_above,   ///< LSE over a row's own block 80 above that over the clean keys
  local_below,   ///< and 80 below
  equal_maxima,  ///< all keys of a head equal: every visible key has the same score
  cancelling,    ///< neighbouring values in pairs of opposite sign
};
inline const char* name(DataKind kind) {
  switch (kind) {
    case DataKind::gauss:
      return "gauss";
    case DataKind::integers:
      return "integers";
    case DataKind::scores_80:
      return "scores80";
    case DataKind::scores_1e4:
      return "scores1e4";
    case DataKind::local_above:
      return "localabove";
    case DataKind::local_below:
      return "localbelow";
    case DataKind::equal_maxima:
      return "equalmaxima";
    case DataKind::cancelling:
      return "cancelling";
  }
  return "?";
}

/// Random inputs by Philox; tensors 0 to 3 are q, k, v, d_o, and the Philox stream is the row
/// stream. `scale` is 1/sqrt(D), and 2 for integers. Positions of padding get values too, which
/// nothing may read.
///
/// The exact scalar is made from whole numbers only, which the kind `integers` has.
template <class T>
AttentionProblem<T> attention_data(const AttentionShape& shape, int64_t length, DataKind kind,
                                   uint64_t seed) {
  AttentionProblem<T> p;
  p.shape = shape;
  p.length = length;
  const auto from = [](double x) {
    if constexpr (std::is_constructible_v<T, double>) {
      return T(x);
    } else {
      require<LogicError>(x == std::round(x), x, " is not a whole number");
      return T(static_cast<int64_t>(x));
    }
  };
  const double root = std::sqrt(static_cast<double>(shape.head_dim));
  p.scale = from(kind == DataKind::integers ? 2 : 1 / root);
  const auto fill = [&](std::vector<T>& to, uint32_t tensor, int stream, int64_t heads) {
    const Philox random(seed, tensor, static_cast<uint32_t>(stream));
    to.resize(length * heads * shape.head_dim);
    for (size_t i = 0; i < to.size(); ++i) {
      double x = random.gaussian(i);
      if (kind == DataKind::integers) {
        x = std::round(x) == 0 ? (x < 0 ? -1 : 1) : std::round(x);
      }
      to[i] = from(x);
    }
  };
  for (int s = 0; s < 2; ++s) {
    fill(p.q[s], 0, s, shape.q_heads);
    fill(p.k[s], 1, s, shape.kv_heads);
    fill(p.v[s], 2, s, shape.kv_heads);
    fill(p.d_o[s], 3, s, shape.q_heads);
    const int64_t d = shape.head_dim;
    const auto rows_of = [d](std::vector<T>& values, auto edit) {
      for (size_t i = 0; i < values.size(); i += d) {
        edit(&values[i], i / d);
      }
    };
    switch (kind) {
      case DataKind::gauss:
      case DataKind::integers:
        break;
      case DataKind::scores_80:
      case DataKind::scores_1e4: {
        // Scores have deviation 1.155^2; a few deviations are the wanted size.
        const T factor = from(kind == DataKind::scores_80 ? 20 : 2500);
        for (T& x : p.q[s]) {
          x *= factor;
        }
        break;
      }
      case DataKind::local_above:
      case DataKind::local_below: {
        // Channel 0 alone adds +-80 to the scores of corrupted keys.
        const double sign = kind == DataKind::local_above ? 1 : -1;
        const bool corrupted = s == static_cast<int>(Stream::corrupted);
        const T key = from(corrupted ? std::round(sign * 10 * root) : 0);
        rows_of(p.q[s], [&](T* row, size_t) { row[0] = from(8); });
        rows_of(p.k[s], [&](T* row, size_t) { row[0] = key; });
        break;
      }
      case DataKind::equal_maxima: {
        // Both streams, every position: the first key of each head.
        const size_t width = static_cast<size_t>(shape.kv_heads * d);
        for (size_t i = 0; i < p.k[s].size(); ++i) {
          p.k[s][i] = p.k[0][i % width];
        }
        break;
      }
      case DataKind::cancelling: {
        const size_t width = static_cast<size_t>(shape.kv_heads * d);
        for (size_t i = width; i < p.v[s].size(); ++i) {
          if ((i / width) % 2 == 1) {
            p.v[s][i] = -p.v[s][i - width];
          }
        }
        break;
      }
    }
  }
  return p;
}

}  // namespace bdlm
