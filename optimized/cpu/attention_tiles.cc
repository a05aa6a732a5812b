#include "optimized/cpu/attention_tiles.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace bdlm::cpu {
namespace {

constexpr uint32_t exponent_mask = 0x7f800000U;

bool all_finite(int64_t n, const float* x) {
  uint32_t found = 0;
  for (int64_t i = 0; i < n; ++i) {
    found |= (std::bit_cast<uint32_t>(x[i]) & exponent_mask) == exponent_mask ? 1U : 0U;
  }
  return found == 0;
}

/// The smallest interval around both.
Interval join_intervals(const Interval& a, const Interval& b) {
  if (a.empty() || b.empty()) {
    return a.empty() ? b : a;
  }
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

}  // namespace

void QueryTile::set(const AttentionProblem& problem, int64_t kv_head, int64_t tile) {
  kv_head_ = kv_head;
  group_ = problem.shape.group();
  head_dim_ = problem.shape.head_dim;
  first_ = tile * query_tile;
  size_ = std::min(query_tile, problem.shape.rows * group_ - first_);
  key_sets_ = problem.key_set_count;
  for (int64_t s = 0; s < key_sets_; ++s) {
    for (int64_t m = 0; m < query_tile; ++m) {
      seen_[s][m] = m < size_ ? problem.key_sets[s].seen(row(m)) : Interval{};
    }
  }
}

void QueryTile::hide(int64_t m) {
  for (auto& seen : seen_) {
    seen[m] = {};
  }
}

Interval QueryTile::cover(int64_t key_set) const {
  Interval all;
  for (int64_t m = 0; m < size_; ++m) {
    all = join_intervals(all, seen_[key_set][m]);
  }
  return all;
}

PanelSpan QueryTile::span(int64_t key_set, int64_t p, const Interval& tile) const {
  PanelSpan out;
  Interval all;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const Interval keys = intersect(seen_[key_set][p * lanes + lane], tile);
    if (!keys.empty()) {
      out.first[lane] = static_cast<int32_t>(keys.begin - tile.begin);
      out.last[lane] = static_cast<int32_t>(keys.end - tile.begin);
      all = join_intervals(all, keys);
    }
  }
  if (all.empty()) {
    return out;
  }
  out.begin = all.begin - tile.begin;
  out.end = all.end - tile.begin;
  for (int64_t lane = 0; lane < lanes; ++lane) {
    out.partial = out.partial || out.first[lane] != out.begin || out.last[lane] != out.end;
  }
  return out;
}

void QueryTile::load_panels(const TensorView& tensor, Floats& panels) {
  const int64_t d = head_dim_;
  panels.assign(this->panels() * d * lanes, 0.0F);
  one_row_.resize(d);
  for (int64_t m = 0; m < size_; ++m) {
    tensor.load(d, one_row_.data(), row(m), head(m));
    float* to = panels.data() + m / lanes * d * lanes + m % lanes;
    for (int64_t c = 0; c < d; ++c) {
      to[c * lanes] = one_row_[c];
    }
  }
}

bool QueryTile::load_rows(const TensorView& tensor, Floats& rows) const {
  const int64_t stride = padded(head_dim_);
  rows.assign(panels() * lanes * stride, 0.0F);
  for (int64_t m = 0; m < size_; ++m) {
    tensor.load(head_dim_, rows.data() + m * stride, row(m), head(m));
  }
  return all_finite(static_cast<int64_t>(rows.size()), rows.data());
}

Interval panel_spans(const QueryTile& query, int64_t key_set, const Interval& tile,
                     std::array<PanelSpan, tile_panels>& spans) {
  Interval needed;
  for (int64_t p = 0; p < query.panels(); ++p) {
    spans[p] = query.span(key_set, p, tile);
    needed = join_intervals(needed, {spans[p].begin, spans[p].end});
  }
  return needed;
}

bool load_keys(const TensorView& tensor, int64_t kv_head, int64_t head_dim, int64_t tile_begin,
               const Interval& needed, Floats& rows) {
  const int64_t stride = padded(head_dim);
  rows.resize(key_tile * stride);
  bool finite = true;
  for (int64_t j = needed.begin; j < needed.end; ++j) {
    tensor.load(head_dim, rows.data() + j * stride, tile_begin + j, kv_head);
    finite = finite && all_finite(head_dim, rows.data() + j * stride);
  }
  return finite;
}

void seen_product(const PanelSpan& span, int64_t head_dim, const float* rows, const float* weight,
                  float* out) {
  const int64_t stride = padded(head_dim);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    for (int64_t c = 0; c < head_dim; ++c) {
      float sum = 0;
      for (int64_t j = span.first[lane]; j < span.last[lane]; ++j) {
        sum = std::fma(rows[j * stride + c], weight[j * lanes + lane], sum);
      }
      out[c * lanes + lane] += sum;
    }
  }
}

void seen_outer_product(const PanelSpan& span, int64_t head_dim, const float* weight,
                        const float* rows, float* out) {
  const int64_t stride = padded(head_dim);
  for (int64_t j = span.begin; j < span.end; ++j) {
    for (int64_t c = 0; c < head_dim; ++c) {
      float sum = 0;
      for (int64_t lane = 0; lane < lanes; ++lane) {
        if (span.first[lane] <= j && j < span.last[lane]) {
          sum = std::fma(weight[j * lanes + lane], rows[lane * stride + c], sum);
        }
      }
      out[j * stride + c] += sum;
    }
  }
}

}  // namespace bdlm::cpu
