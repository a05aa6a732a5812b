#include "optimized/cpu/softmax.h"

#include "optimized/cpu/aligned.h"
#include "optimized/cpu/vector_exp.h"

namespace bdlm::cpu {
namespace {

/// Eight of a panel's lanes and what they see.
class HalfMask {
 public:
  HalfMask(const PanelSpan& span, int64_t half)
      : first_(_mm256_load_si256(
            reinterpret_cast<const __m256i*>(span.first.data() + half * vector_lanes))),
        last_(_mm256_load_si256(
            reinterpret_cast<const __m256i*>(span.last.data() + half * vector_lanes))) {}

  /// All ones where the lane sees key j.
  __m256 sees(int64_t j) const {
    const __m256i key = _mm256_set1_epi32(static_cast<int32_t>(j));
    return _mm256_castsi256_ps(
        _mm256_andnot_si256(_mm256_cmpgt_epi32(first_, key), _mm256_cmpgt_epi32(last_, key)));
  }

  static constexpr int64_t vector_lanes = 8;

 private:
  __m256i first_, last_;
};

constexpr int64_t halves = lanes / HalfMask::vector_lanes;

}  // namespace

bool online_softmax(const PanelSpan& span, float scale, float* scores, Lanes& maximum, Lanes& sum,
                    Lanes& factor) {
  const __m256 empty = _mm256_set1_ps(-infinity);
  bool rescaled = false;
  for (int64_t half = 0; half < halves; ++half) {
    const int64_t lane = half * HalfMask::vector_lanes;
    const HalfMask mask(span, half);
    float* s = scores + lane;
    const __m256 before = _mm256_load_ps(maximum.x.data() + lane);
    __m256 after = before;
    for (int64_t j = span.begin; j < span.end; ++j) {
      __m256 x = _mm256_mul_ps(_mm256_load_ps(s + j * lanes), _mm256_set1_ps(scale));
      if (span.partial) {
        x = _mm256_blendv_ps(empty, x, mask.sees(j));
      }
      _mm256_store_ps(s + j * lanes, x);
      after = _mm256_max_ps(x, after);  // keeps `after` where x is NaN; exp brings the NaN back
    }
    const __m256 shift = _mm256_andnot_ps(_mm256_cmp_ps(after, empty, _CMP_EQ_OQ), after);
    __m256 total = _mm256_setzero_ps();
    for (int64_t j = span.begin; j < span.end; ++j) {
      const __m256 p = vector_exp(_mm256_sub_ps(_mm256_load_ps(s + j * lanes), shift));
      _mm256_store_ps(s + j * lanes, p);
      total = _mm256_add_ps(total, p);
    }
    const __m256 f = vector_exp(_mm256_sub_ps(before, shift));
    const __m256 changed = _mm256_cmp_ps(f, _mm256_set1_ps(1.0F), _CMP_NEQ_UQ);
    rescaled = rescaled || _mm256_movemask_ps(changed) != 0;
    _mm256_store_ps(maximum.x.data() + lane, after);
    _mm256_store_ps(factor.x.data() + lane, f);
    _mm256_store_ps(sum.x.data() + lane,
                    _mm256_fmadd_ps(_mm256_load_ps(sum.x.data() + lane), f, total));
  }
  return rescaled;
}

void score_gradient(const PanelSpan& span, float scale, const Lanes& z, const Lanes& delta,
                    float* p, float* ds) {
  for (int64_t half = 0; half < halves; ++half) {
    const int64_t lane = half * HalfMask::vector_lanes;
    const HalfMask mask(span, half);
    const __m256 factor = _mm256_set1_ps(scale);
    const __m256 shift = _mm256_load_ps(z.x.data() + lane);
    const __m256 mean = _mm256_load_ps(delta.x.data() + lane);
    for (int64_t j = span.begin; j < span.end; ++j) {
      float* p_at = p + j * lanes + lane;
      float* ds_at = ds + j * lanes + lane;
      __m256 probability =
          vector_exp(_mm256_sub_ps(_mm256_mul_ps(_mm256_load_ps(p_at), factor), shift));
      __m256 gradient = _mm256_mul_ps(
          factor, _mm256_mul_ps(probability, _mm256_sub_ps(_mm256_load_ps(ds_at), mean)));
      if (span.partial) {
        const __m256 sees = mask.sees(j);
        probability = _mm256_and_ps(probability, sees);
        gradient = _mm256_and_ps(gradient, sees);
      }
      _mm256_store_ps(p_at, probability);
      _mm256_store_ps(ds_at, gradient);
    }
  }
}

void scale_lanes(int64_t count, const Lanes& factor, float* values) {
  for (int64_t half = 0; half < halves; ++half) {
    const int64_t lane = half * HalfMask::vector_lanes;
    const __m256 f = _mm256_load_ps(factor.x.data() + lane);
    for (int64_t i = 0; i < count; ++i) {
      float* at = values + i * lanes + lane;
      _mm256_store_ps(at, _mm256_mul_ps(_mm256_load_ps(at), f));
    }
  }
}

}  // namespace bdlm::cpu
