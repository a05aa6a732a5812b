#pragma once
// The logits of one tile of rows and classes, and what becomes of them.

#include <array>
#include <cstdint>

#include "optimized/cpu/aligned.h"
#include "optimized/cpu/panel_product.h"
#include "optimized/cpu/tensor_view.h"

namespace bdlm::cpu {

/// Rows and classes of a tile, and terms of a chain of a dot product over the hidden channels.
inline constexpr int64_t logit_rows = 64;
inline constexpr int64_t logit_classes = 64;
inline constexpr int64_t logit_chain = 64;
inline constexpr int64_t logit_panels = logit_rows / panel_width;

/// A logit x becomes softcap tanh(x / softcap), or stays where softcap is 0; then class `excluded`
/// leaves the softmax, none where it is -1.
struct LogitRule {
  double softcap = 0;
  int64_t excluded = -1;
};

/// Classes [first, first + count) of the head, as floats. The excluded class's weights read as 0,
/// so that they may be anything.
class HeadTile {
 public:
  void load(const TensorView& head, int64_t tile, const LogitRule& rule);
  int64_t first() const { return first_; }
  int64_t count() const { return count_; }
  /// (count, hidden)
  const Strided& values() const { return values_; }

 private:
  int64_t first_ = 0, count_ = 0;
  Strided values_{};
  Floats copy_;
};

/// What the softmax needs of the rows of a tile, one value a row.
struct RowTerms {
  alignas(32) std::array<float, logit_rows> maximum{};
  alignas(32) std::array<float, logit_rows> inverse_sum{};
  alignas(32) std::array<float, logit_rows> factor{};
  /// The label, counted from the first class; -1 beyond the rows.
  std::array<int64_t, logit_rows> label{};
};

/// logits [class][row] of a head tile and panels [panel][channel][lane] of rows, before the rule.
void dot_products(const HeadTile& head, int64_t hidden, const float* panels, float* logits);

/// The maximum over the tile's classes of each row, the sum of exp(logit - maximum), and the logit
/// of the label where the tile has it. -inf and 0 where the tile has no class that counts. Changes
/// `logits`.
struct TileSums {
  std::array<float, logit_rows> maximum, sum;
};
TileSums softmax_sums(const HeadTile& head, const LogitRule& rule, float* logits,
                      const std::array<int64_t, logit_rows>& label,
                      std::array<float, logit_rows>& label_logit);

/// Replaces dot products by gradients: factor (p - [class is the label]) (slope of the softcap), p
/// = exp(logit - maximum) inverse_sum; 0 for the excluded class.
void logit_gradients(const HeadTile& head, const LogitRule& rule, const RowTerms& rows,
                     float* logits);

}  // namespace bdlm::cpu
