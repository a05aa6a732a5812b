#pragma once
// The parts of attention that work on one panel of scores: masks, exponentials, gradients.
//
// Scores are [key][lane], relative to a key tile. What a lane does not see is replaced by a
// selection, never by arithmetic, so that it may be NaN or infinite.

#include "optimized/cpu/attention_tiles.h"

namespace bdlm::cpu {

/// One float of each lane.
struct alignas(32) Lanes {
  std::array<float, lanes> x{};
  float& operator[](int64_t lane) { return x[lane]; }
  const float& operator[](int64_t lane) const { return x[lane]; }
};

/// Replaces dot products by exp(scale * dot - maximum), 0 where not seen, with the new maximum over
/// these and earlier keys; -inf, where there are none yet, counts as 0 there. `sum` becomes
/// sum * factor + the sum of these, `factor` = exp(old maximum - new maximum). Returns whether any
/// factor differs from 1.
bool online_softmax(const PanelSpan& span, float scale, float* scores, Lanes& maximum, Lanes& sum,
                    Lanes& factor);

/// From dot products q.k in `p` and d_o.v in `ds`: p = exp(scale * dot - z) and
/// ds = scale * p * (d_o.v - delta); both 0 where not seen.
void score_gradient(const PanelSpan& span, float scale, const Lanes& z, const Lanes& delta,
                    float* p, float* ds);

/// values [count][lane] *= factor [lane]
void scale_lanes(int64_t count, const Lanes& factor, float* values);

}  // namespace bdlm::cpu
