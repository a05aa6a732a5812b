#include "optimized/cpu/attention_backward.h"

#include <algorithm>
#include <vector>

#include "optimized/cpu/attention_tiles.h"
#include "optimized/cpu/softmax.h"
#include "reference/base/parallel_for.h"

namespace bdlm::cpu {
namespace {

/// Sums of dK and dV, (keys, padded D) each.
struct KeySums {
  float *dk, *dv;
};

/// One thread's arrays and the inner steps.
class Backward {
 public:
  void load(const AttentionProblem& problem, int64_t kv_head, int64_t tile) {
    const int64_t d = problem.shape.head_dim;
    kv_head_ = kv_head;
    query_.set(problem, kv_head, tile);
    query_.load_panels(problem.q, q_panels_);
    query_.load_panels(problem.d_o, do_panels_);
    const bool q_finite = query_.load_rows(problem.q, q_rows_);
    finite_ = query_.load_rows(problem.d_o, do_rows_) && q_finite;
    p_.resize(key_tile * lanes * tile_panels);
    ds_.resize(p_.size());
    o_.resize(d);
    z_.fill({});
    delta_.fill({});
    for (int64_t m = 0; m < query_.size(); ++m) {
      float& z = z_[m / lanes][m % lanes];
      problem.lse.load(1, &z, query_.row(m), query_.head(m));
      if (z == -infinity) {
        query_.hide(m);
        z = 0;
        continue;
      }
      problem.o.load(d, o_.data(), query_.row(m), query_.head(m));
      const float* d_o = do_rows_.data() + m * padded(d);
      double delta = 0;
      for (int64_t c = 0; c < d; ++c) {
        delta += static_cast<double>(d_o[c]) * o_[c];
      }
      delta_[m / lanes][m % lanes] = static_cast<float>(delta);
    }
  }

  void clear_dq(int64_t head_dim) { dq_panels_.assign(query_.panels() * head_dim * lanes, 0.0F); }

  /// The loaded query tile on all keys that it sees: dQ, and where `sums` is given, by key set, dK
  /// and dV, too.
  void attend_all(const AttentionProblem& problem, const KeySums* sums) {
    for (int64_t s = 0; s < problem.key_set_count; ++s) {
      const Interval cover = query_.cover(s);
      for (int64_t begin = cover.begin / key_tile * key_tile; begin < cover.end;
           begin += key_tile) {
        const int64_t first = begin * padded(problem.shape.head_dim);
        const KeySums at = sums == nullptr ? KeySums{nullptr, nullptr}
                                           : KeySums{sums[s].dk + first, sums[s].dv + first};
        pair(problem, s, begin, true, at);
      }
    }
  }

  /// The loaded query tile on one key tile: adds to its dQ and to the key tile's sums, as asked.
  void pair(const AttentionProblem& problem, int64_t key_set, int64_t tile_begin, bool want_dq,
            const KeySums& sums) {
    const Interval needed =
        panel_spans(query_, key_set, {tile_begin, tile_begin + key_tile}, spans_);
    if (needed.empty()) {
      return;
    }
    const KeySet& keys = problem.key_sets[key_set];
    const int64_t d = problem.shape.head_dim;
    const int64_t stride = padded(d);
    const bool k_finite = load_keys(keys.k, kv_head_, d, tile_begin, needed, k_);
    load_keys(keys.v, kv_head_, d, tile_begin, needed, v_);
    for (int64_t i = 0; i < query_.panels(); ++i) {
      const PanelSpan& span = spans_[i];
      if (span.size() == 0) {
        continue;
      }
      float* p = p_.data() + i * key_tile * lanes;
      float* ds = ds_.data() + i * key_tile * lanes;
      const int64_t from = span.begin * stride;
      const int64_t first = span.begin * lanes;
      panel_product(span.size(), d, {k_.data() + from, stride, 1}, q_panels_.data() + i * d * lanes,
                    lanes, p + first, lanes, false);
      panel_product(span.size(), d, {v_.data() + from, stride, 1},
                    do_panels_.data() + i * d * lanes, lanes, ds + first, lanes, false);
      score_gradient(span, problem.scale, z_[i], delta_[i], p, ds);
      if (!want_dq) {
        continue;
      }
      float* dq = dq_panels_.data() + i * d * lanes;
      if (span.partial && !k_finite) {
        seen_product(span, d, k_.data(), ds, dq);
      } else {
        panel_product(d, span.size(), {k_.data() + from, 1, stride}, ds + first, lanes, dq, lanes,
                      true);
      }
    }
    if (sums.dk != nullptr) {
      add_outer_products(needed, d, p_.data(), do_rows_, sums.dv);
      add_outer_products(needed, d, ds_.data(), q_rows_, sums.dk);
    }
  }

  /// dq = dq_state + the tile's sums.
  void store_dq(const AttentionProblem& problem) {
    const int64_t d = problem.shape.head_dim;
    for (int64_t m = 0; m < query_.size(); ++m) {
      std::fill(o_.begin(), o_.end(), 0.0F);
      if (problem.dq_state.exists()) {
        problem.dq_state.load(d, o_.data(), query_.row(m), query_.head(m));
      }
      const float* from = dq_panels_.data() + m / lanes * d * lanes + m % lanes;
      for (int64_t c = 0; c < d; ++c) {
        o_[c] += from[c * lanes];
      }
      problem.dq.store(d, o_.data(), query_.row(m), query_.head(m));
    }
  }

  /// Whether any row sees a key of the tile.
  bool sees(const AttentionProblem& problem, int64_t kv_head, int64_t tile, int64_t key_set,
            int64_t tile_begin) {
    query_.set(problem, kv_head, tile);
    return !panel_spans(query_, key_set, {tile_begin, tile_begin + key_tile}, spans_).empty();
  }

 private:
  /// out (key_tile, padded D) += the sum over panels of weights' transpose times rows. The tile is
  /// summed by itself first, which keeps the chains short.
  void add_outer_products(const Interval& needed, int64_t head_dim, const float* weights,
                          const Floats& rows, float* out) {
    const int64_t stride = padded(head_dim);
    tile_.resize(key_tile * stride);
    std::fill(tile_.begin() + needed.begin * stride, tile_.begin() + needed.end * stride, 0.0F);
    for (int64_t i = 0; i < query_.panels(); ++i) {
      const PanelSpan& span = spans_[i];
      const float* w = weights + i * key_tile * lanes;
      const float* b = rows.data() + i * lanes * stride;
      if (span.partial && !finite_) {
        seen_outer_product(span, head_dim, w, b, tile_.data());
        continue;
      }
      for (int64_t c = 0; c < stride; c += panel_width) {
        panel_product(span.size(), lanes, {w + span.begin * lanes, lanes, 1}, b + c, stride,
                      tile_.data() + span.begin * stride + c, stride, true);
      }
    }
    for (int64_t i = needed.begin * stride; i < needed.end * stride; ++i) {
      out[i] += tile_[i];
    }
  }

  QueryTile query_;
  int64_t kv_head_ = 0;
  bool finite_ = true;
  std::array<PanelSpan, tile_panels> spans_;
  Floats k_, v_;                              // (key_tile, padded D)
  Floats q_panels_, do_panels_, dq_panels_;   // [panel][channel][lane]
  Floats q_rows_, do_rows_;                   // (panels * lanes, padded D)
  Floats p_, ds_;                             // [panel][key][lane]
  Floats tile_;                               // (key_tile, padded D)
  std::array<Lanes, tile_panels> z_, delta_;  // [panel][lane]
  std::vector<float> o_;                      // (D)
};

/// Writes rows [0, count) of the sums to keys [first, first + count) of dk and dv.
void store_keys(const AttentionProblem& problem, const KeySet& keys, int64_t kv_head, int64_t first,
                int64_t count, const KeySums& sums) {
  const int64_t d = problem.shape.head_dim;
  for (int64_t j = 0; j < count; ++j) {
    keys.dk.store(d, sums.dk + j * padded(d), first + j, kv_head);
    keys.dv.store(d, sums.dv + j * padded(d), first + j, kv_head);
  }
}

void by_heads(const AttentionProblem& problem, std::vector<Backward>& threads) {
  const int64_t d = problem.shape.head_dim;
  const int64_t tiles = QueryTile::count(problem.shape);
  parallel_for(problem.shape.kv_heads, [&](int64_t head, int thread) {
    Backward& work = threads[thread];
    std::array<Floats, most_key_sets> dk;
    std::array<Floats, most_key_sets> dv;
    std::array<KeySums, most_key_sets> sums{};
    for (int64_t s = 0; s < problem.key_set_count; ++s) {
      const int64_t size = round_up(problem.key_sets[s].size(), key_tile) * padded(d);
      dk[s].assign(size, 0.0F);
      dv[s].assign(size, 0.0F);
      sums[s] = {dk[s].data(), dv[s].data()};
    }
    for (int64_t tile = 0; tile < tiles; ++tile) {
      work.load(problem, head, tile);
      work.clear_dq(d);
      work.attend_all(problem, sums.data());
      work.store_dq(problem);
    }
    for (int64_t s = 0; s < problem.key_set_count; ++s) {
      store_keys(problem, problem.key_sets[s], head, 0, problem.key_sets[s].size(), sums[s]);
    }
  });
}

void by_tiles(const AttentionProblem& problem, std::vector<Backward>& threads) {
  const int64_t d = problem.shape.head_dim;
  const int64_t tiles = QueryTile::count(problem.shape);
  // dK and dV first: dq may be the same memory as dq_state, which is read once, but nothing else.
  for (int64_t s = 0; s < problem.key_set_count; ++s) {
    const KeySet& keys = problem.key_sets[s];
    const int64_t key_tiles = (keys.size() + key_tile - 1) / key_tile;
    parallel_for(problem.shape.kv_heads * key_tiles, [&](int64_t unit, int thread) {
      const int64_t head = unit / key_tiles;
      const int64_t begin = unit % key_tiles * key_tile;
      Backward& work = threads[thread];
      Floats dk(key_tile * padded(d), 0.0F);
      Floats dv(key_tile * padded(d), 0.0F);
      for (int64_t tile = 0; tile < tiles; ++tile) {
        if (work.sees(problem, head, tile, s, begin)) {
          work.load(problem, head, tile);
          work.pair(problem, s, begin, false, {dk.data(), dv.data()});
        }
      }
      store_keys(problem, keys, head, begin, std::min(key_tile, keys.size() - begin),
                 {dk.data(), dv.data()});
    });
  }
  parallel_for(problem.shape.kv_heads * tiles, [&](int64_t unit, int thread) {
    Backward& work = threads[thread];
    work.load(problem, unit / tiles, unit % tiles);
    work.clear_dq(d);
    work.attend_all(problem, nullptr);
    work.store_dq(problem);
  });
}

}  // namespace

void attention_backward(const AttentionProblem& problem) {
  std::vector<Backward> threads(max_threads());
  if (problem.shape.kv_heads >= max_threads()) {
    by_heads(problem, threads);
  } else {
    by_tiles(problem, threads);
  }
}

}  // namespace bdlm::cpu
