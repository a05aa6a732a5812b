#include "optimized/cpu/logit_tile.h"

#include <algorithm>
#include <limits>

#include "optimized/cpu/vector_tanh.h"

namespace bdlm::cpu {
namespace {

constexpr int64_t vector_lanes = 8;

/// The rule's function of eight dot products, and its slope.
class Cap {
 public:
  explicit Cap(const LogitRule& rule)
      : on_(rule.softcap > 0),
        cap_(_mm256_set1_ps(static_cast<float>(rule.softcap))),
        inverse_(_mm256_set1_ps(on_ ? static_cast<float>(1 / rule.softcap) : 1.0F)) {}

  TanhAndSlope operator()(__m256 x) const {
    if (!on_) {
      return {x, _mm256_set1_ps(1.0F)};
    }
    TanhAndSlope t = vector_tanh(_mm256_mul_ps(x, inverse_));
    t.value = _mm256_mul_ps(t.value, cap_);
    return t;
  }

 private:
  bool on_;
  __m256 cap_, inverse_;
};

}  // namespace

void HeadTile::load(const TensorView& head, int64_t tile, const LogitRule& rule) {
  const int64_t hidden = head.size(1);
  first_ = tile * logit_classes;
  count_ = std::min(logit_classes, head.size(0) - first_);
  const bool has_excluded = first_ <= rule.excluded && rule.excluded < first_ + count_;
  if (head.element() == Element::fp32 && !has_excluded) {
    values_ = {head.floats(first_), head.pitch(), 1};
    return;
  }
  copy_.resize(logit_classes * hidden);
  for (int64_t j = 0; j < count_; ++j) {
    if (first_ + j == rule.excluded) {
      std::fill_n(copy_.data() + j * hidden, hidden, 0.0F);
    } else {
      head.load(hidden, copy_.data() + j * hidden, first_ + j);
    }
  }
  values_ = {copy_.data(), hidden, 1};
}

void dot_products(const HeadTile& head, int64_t hidden, const float* panels, float* logits) {
  for (int64_t c = 0; c < hidden; c += logit_chain) {
    const int64_t terms = std::min(logit_chain, hidden - c);
    Strided values = head.values();
    values.data += c;
    for (int64_t p = 0; p < logit_panels; ++p) {
      panel_product(head.count(), terms, values, panels + (p * hidden + c) * panel_width,
                    panel_width, logits + p * panel_width, logit_rows, c > 0);
    }
  }
}

TileSums softmax_sums(const HeadTile& head, const LogitRule& rule, float* logits,
                      const std::array<int64_t, logit_rows>& label,
                      std::array<float, logit_rows>& label_logit) {
  const Cap cap(rule);
  const __m256 none = _mm256_set1_ps(-std::numeric_limits<float>::infinity());
  TileSums out;
  for (int64_t row = 0; row < logit_rows; row += vector_lanes) {
    __m256 maximum = none;
    for (int64_t j = 0; j < head.count(); ++j) {
      float* at = logits + j * logit_rows + row;
      const __m256 x = cap(_mm256_load_ps(at)).value;
      _mm256_store_ps(at, x);
      if (head.first() + j != rule.excluded) {
        maximum = _mm256_max_ps(x, maximum);  // keeps `maximum` where x is NaN; exp brings it back
      }
    }
    const __m256 shift = _mm256_andnot_ps(_mm256_cmp_ps(maximum, none, _CMP_EQ_OQ), maximum);
    __m256 sum = _mm256_setzero_ps();
    for (int64_t j = 0; j < head.count(); ++j) {
      if (head.first() + j != rule.excluded) {
        const __m256 x = _mm256_load_ps(logits + j * logit_rows + row);
        sum = _mm256_add_ps(sum, vector_exp(_mm256_sub_ps(x, shift)));
      }
    }
    _mm256_storeu_ps(out.maximum.data() + row, maximum);
    _mm256_storeu_ps(out.sum.data() + row, sum);
  }
  for (int64_t row = 0; row < logit_rows; ++row) {
    const int64_t j = label[row] - head.first();
    if (label[row] >= 0 && 0 <= j && j < head.count()) {
      label_logit[row] = logits[j * logit_rows + row];
    }
  }
  return out;
}

void logit_gradients(const HeadTile& head, const LogitRule& rule, const RowTerms& rows,
                     float* logits) {
  const Cap cap(rule);
  for (int64_t row = 0; row < logit_rows; row += vector_lanes) {
    const __m256 maximum = _mm256_load_ps(rows.maximum.data() + row);
    const __m256 inverse = _mm256_load_ps(rows.inverse_sum.data() + row);
    const __m256 factor = _mm256_load_ps(rows.factor.data() + row);
    alignas(32) std::array<int32_t, vector_lanes> label;
    for (int64_t i = 0; i < vector_lanes; ++i) {
      const int64_t j = rows.label[row + i] - head.first();
      const bool here = rows.label[row + i] >= 0 && 0 <= j && j < head.count();
      label[i] = here ? static_cast<int32_t>(j) : -1;
    }
    const __m256i labels = _mm256_load_si256(reinterpret_cast<const __m256i*>(label.data()));
    for (int64_t j = 0; j < head.count(); ++j) {
      float* at = logits + j * logit_rows + row;
      if (head.first() + j == rule.excluded) {
        _mm256_store_ps(at, _mm256_setzero_ps());
        continue;
      }
      const auto [x, slope] = cap(_mm256_load_ps(at));
      const __m256 p = _mm256_mul_ps(vector_exp(_mm256_sub_ps(x, maximum)), inverse);
      const __m256i is_label =
          _mm256_cmpeq_epi32(labels, _mm256_set1_epi32(static_cast<int32_t>(j)));
      const __m256 one = _mm256_and_ps(_mm256_castsi256_ps(is_label), _mm256_set1_ps(1.0F));
      _mm256_store_ps(at, _mm256_mul_ps(_mm256_mul_ps(_mm256_sub_ps(p, one), factor), slope));
    }
  }
}

}  // namespace bdlm::cpu
