#include "optimized/cpu/attention_forward.h"

#include <cmath>
#include <vector>

#include "optimized/cpu/attention_tiles.h"
#include "optimized/cpu/merge.h"
#include "optimized/cpu/softmax.h"
#include "reference/base/parallel_for.h"

namespace bdlm::cpu {
namespace {

/// One thread's arrays and the inner steps.
class Forward {
 public:
  void run(const AttentionProblem& problem, int64_t kv_head, int64_t tile) {
    const int64_t d = problem.shape.head_dim;
    query_.set(problem, kv_head, tile);
    query_.load_panels(problem.q, q_panels_);
    o_panels_.assign(query_.panels() * d * lanes, 0.0F);
    scores_.resize(key_tile * lanes);
    maximum_.fill({});
    sum_.fill({});
    for (Lanes& panel : maximum_) {
      panel.x.fill(-infinity);
    }
    for (int64_t s = 0; s < problem.key_set_count; ++s) {
      const Interval cover = query_.cover(s);
      for (int64_t begin = cover.begin / key_tile * key_tile; begin < cover.end;
           begin += key_tile) {
        attend(problem, s, kv_head, {begin, begin + key_tile});
      }
    }
    for (int64_t m = 0; m < query_.size(); ++m) {
      finish(problem, m);
    }
  }

 private:
  void attend(const AttentionProblem& problem, int64_t key_set, int64_t kv_head,
              const Interval& tile) {
    const Interval needed = panel_spans(query_, key_set, tile, spans_);
    if (needed.empty()) {
      return;
    }
    const KeySet& keys = problem.key_sets[key_set];
    const int64_t d = problem.shape.head_dim;
    const int64_t stride = padded(d);
    load_keys(keys.k, kv_head, d, tile.begin, needed, k_);
    const bool finite = load_keys(keys.v, kv_head, d, tile.begin, needed, v_);
    Lanes factor;
    for (int64_t p = 0; p < query_.panels(); ++p) {
      const PanelSpan& span = spans_[p];
      if (span.size() == 0) {
        continue;
      }
      float* s = scores_.data() + span.begin * lanes;
      float* out = o_panels_.data() + p * d * lanes;
      panel_product(span.size(), d, {k_.data() + span.begin * stride, stride, 1},
                    q_panels_.data() + p * d * lanes, lanes, s, lanes, false);
      if (online_softmax(span, problem.scale, scores_.data(), maximum_[p], sum_[p], factor)) {
        scale_lanes(d, factor, out);
      }
      if (span.partial && !finite) {
        seen_product(span, d, v_.data(), scores_.data(), out);
      } else {
        panel_product(d, span.size(), {v_.data() + span.begin * stride, 1, stride}, s, lanes, out,
                      lanes, true);
      }
    }
  }

  /// Normalises tile row m and merges it with its state.
  void finish(const AttentionProblem& problem, int64_t m) {
    const int64_t d = problem.shape.head_dim;
    const int64_t row = query_.row(m);
    const int64_t head = query_.head(m);
    part_.resize(d);
    const float sum = sum_[m / lanes][m % lanes];
    // 0 where the row sees nothing, or where all of its scores are -inf: then it attended nothing.
    float z = -infinity;
    if (sum != 0) {
      z = static_cast<float>(static_cast<double>(maximum_[m / lanes][m % lanes]) +
                             std::log(static_cast<double>(sum)));
      const float inverse = 1 / sum;
      const float* from = o_panels_.data() + m / lanes * d * lanes + m % lanes;
      for (int64_t c = 0; c < d; ++c) {
        part_[c] = from[c * lanes] * inverse;
      }
    } else {
      std::fill(part_.begin(), part_.end(), 0.0F);
    }
    if (problem.o_state.exists()) {
      state_.resize(d);
      float z_state = 0;
      problem.o_state.load(d, state_.data(), row, head);
      problem.lse_state.load(1, &z_state, row, head);
      merge_row(d, state_.data(), z_state, part_.data(), z, part_.data(), &z);
    }
    problem.o.store(d, part_.data(), row, head);
    problem.lse.store(1, &z, row, head);
  }

  QueryTile query_;
  std::array<PanelSpan, tile_panels> spans_;
  Floats k_, v_;                // (key_tile, padded D)
  Floats q_panels_, o_panels_;  // [panel][channel][lane]
  Floats scores_;               // [key][lane] of one panel
  std::array<Lanes, tile_panels> maximum_, sum_;
  std::vector<float> part_, state_;  // (D)
};

}  // namespace

void attention_forward(const AttentionProblem& problem) {
  const int64_t tiles = QueryTile::count(problem.shape);
  std::vector<Forward> threads(max_threads());
  parallel_for(problem.shape.kv_heads * tiles, [&](int64_t unit, int thread) {
    // Neighbouring units share a head, hence K and V.
    threads[thread].run(problem, unit / tiles, unit % tiles);
  });
}

}  // namespace bdlm::cpu
