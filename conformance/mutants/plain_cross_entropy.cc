#include "conformance/mutants/plain_backend.h"

#include <algorithm>
#include <cmath>

#include "conformance/mutants/tensor_access.h"
#include "reference/base/special_values.h"

namespace bdlm {

bdlm_status PlainBackend::cross_entropy(void* /*context*/, const bdlm_cross_entropy_args& args) {
  if (args.size < sizeof(args) || args.hidden == nullptr || args.head == nullptr ||
      args.hidden->shape[1] != args.head->shape[1] ||
      args.row_weights->shape[0] != args.hidden->shape[0]) {
    return BDLM_INVALID;
  }
  const TensorAccess hidden(args.hidden), head(args.head), labels(args.labels);
  const TensorAccess weights(args.row_weights), row_loss(args.row_loss), d_hidden(args.d_hidden);
  const TensorAccess d_head(args.d_head);
  const int64_t rows = hidden.size(0), width = hidden.size(1), vocab = head.size(0);
  std::vector<double> dw(vocab * width, 0), x(vocab), g(vocab);
  double counted = 0;
  for (int64_t i = 0; i < rows; ++i) {
    counted += labels.get_int(i) >= 0 ? 1 : 0;
  }
  for (int64_t i = 0; i < rows; ++i) {
    int64_t label = labels.get_int(i);
    if (faults_.label_shifted && i + 1 < rows && label >= 0) {
      label = labels.get_int(i + 1);
    }
    double weight = weights.get(faults_.first_weight_only ? 0 : i);
    if (label < 0 && faults_.counts_ignored_rows) {
      label = 0;
    }
    if (label < 0) {
      row_loss.set(0, i);
      for (int64_t e = 0; e < width; ++e) {
        d_hidden.set(faults_.reads_ignored_rows ? 0 * hidden.get(i, e) : 0, i, e);
      }
      continue;
    }
    if (faults_.chunk_means) {
      // Chunks of 4 rows, each divided by its own rows.
      const int64_t first = i / 4 * 4;
      int64_t mine = 0;
      for (int64_t j = first; j < std::min(rows, first + 4); ++j) {
        mine += labels.get_int(j) >= 0 ? 1 : 0;
      }
      weight *= counted / static_cast<double>(mine);
    }
    double most = -infinity, sum = 0;
    for (int64_t c = 0; c < vocab; ++c) {
      x[c] = 0;
      for (int64_t e = 0; e < width; ++e) {
        x[c] += hidden.get(i, e) * head.get(c, e);
      }
      x[c] = args.softcap > 0 ? args.softcap * std::tanh(x[c] / args.softcap) : x[c];
      if (c == args.excluded && !faults_.keeps_excluded) {
        x[c] = faults_.softcap_after_exclusion && args.softcap > 0 ? -args.softcap : -infinity;
      }
      most = std::max(most, x[c]);
    }
    for (int64_t c = 0; c < vocab; ++c) {
      sum += std::exp(x[c] - most);
    }
    const double z = most + std::log(sum);
    row_loss.set(weight * (z - x[label]), i);
    const double up = (faults_.upstream_ignored ? 1 : args.upstream) * weight;
    for (int64_t c = 0; c < vocab; ++c) {
      const double t = args.softcap > 0 && !faults_.no_softcap_gradient ? x[c] / args.softcap : 0;
      const double slope = std::isfinite(x[c]) ? 1 - t * t : 0;
      g[c] = rounded(up * (std::exp(x[c] - z) - (c == label ? 1 : 0)) * slope, contract_.ds);
    }
    for (int64_t e = 0; e < width; ++e) {
      double dh = 0;
      for (int64_t c = 0; c < vocab; ++c) {
        dh += g[c] * head.get(c, e);
        dw[c * width + e] += g[c] * hidden.get(i, e);
      }
      d_hidden.set(dh, i, e, 0, faults_.rounding);
    }
  }
  for (int64_t c = 0; c < vocab; ++c) {
    for (int64_t e = 0; e < width; ++e) {
      d_head.set(dw[c * width + e], c, e);
    }
  }
  return BDLM_OK;
}

}  // namespace bdlm
