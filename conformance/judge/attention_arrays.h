#pragma once
// One attention layer as plain arrays: what goes in and what comes out, by stream and position.

#include <array>
#include <cstdint>
#include <vector>

#include "reference/math/attention_tiles.h"

namespace bdlm {

/// Values of both streams, by stream (index: static_cast<int>(Stream)) and position.
template <class T>
using ByStream = std::array<std::vector<T>, 2>;

/// Inputs of a layer on L positions, Hq and Hkv heads, D channels.
template <class T>
struct AttentionProblem {
  AttentionShape shape;
  int64_t length = 0;
  T scale = T(1);
  ByStream<T> q, d_o;  // (L, Hq, D)
  ByStream<T> k, v;    // (L, Hkv, D)
};

/// Its outputs. Rows that see nothing have O = 0 and LSE = -inf.
struct AttentionOutputs {
  ByStream<double> o, dq;   // (L, Hq, D)
  ByStream<double> lse;     // (L, Hq)
  ByStream<double> dk, dv;  // (L, Hkv, D)
};

}  // namespace bdlm
