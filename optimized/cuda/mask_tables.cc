#include "optimized/cuda/mask_tables.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "reference/base/error.h"

namespace bdlm::cuda {
namespace {

int64_t tiles_of(int64_t n, int size) {
  return (n + size - 1) / size;
}

/// The host's copy of an array of the tables.
template <class T>
T* on_host(std::vector<std::byte>& image, const void* workspace, const T* device) {
  return reinterpret_cast<T*>(
      image.data() + (reinterpret_cast<const char*>(device) - static_cast<const char*>(workspace)));
}

Cover cover_of(std::span<const Span> rows) {
  constexpr int32_t most = std::numeric_limits<int32_t>::max();
  Cover cover{most, 0, 0, most};
  bool all = true;
  for (const Span& row : rows) {
    if (row.begin == row.end) {
      all = false;
      continue;
    }
    cover.begin = std::min(cover.begin, row.begin);
    cover.end = std::max(cover.end, row.end);
    cover.full_begin = std::max(cover.full_begin, row.begin);
    cover.full_end = std::min(cover.full_end, row.end);
  }
  if (cover.begin >= cover.end) {
    return {0, 0, 0, 0};
  }
  if (!all || cover.full_begin >= cover.full_end) {
    cover.full_begin = cover.full_end = 0;
  }
  return cover;
}

void fill_covers(std::span<const Span> spans, int size, Cover* covers) {
  const auto rows = static_cast<int64_t>(spans.size());
  for (int64_t t = 0; t < tiles_of(rows, size); ++t) {
    const int64_t first = t * size;
    covers[t] = cover_of(spans.subspan(first, std::min<int64_t>(size, rows - first)));
  }
}

/// 0, 1, ... by descending weight; equal ones stay in order.
std::vector<int32_t> heaviest_first(const std::vector<int64_t>& weights) {
  std::vector<int32_t> order(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return weights[a] > weights[b]; });
  return order;
}

}  // namespace

void place_tables(Problem& problem, const TileSizes& tiles, Arena& arena) {
  problem.padded_rows = round_up(problem.rows, row_granularity);
  problem.row_tile_count = static_cast<int32_t>(tiles_of(problem.rows, tiles.rows));
  problem.row_tiles = arena.take<int32_t>(problem.row_tile_count);
  problem.streamed_count =
      tiles.streamed == 0 ? 0 : static_cast<int32_t>(tiles_of(problem.rows, tiles.streamed));
  problem.key_tile_count = 0;
  for (int s = 0; s < problem.set_count; ++s) {
    KeySet& set = problem.sets[s];
    set.spans = arena.take<Span>(problem.padded_rows);
    set.covers = arena.take<Cover>(problem.row_tile_count);
    set.streamed = arena.take<Cover>(problem.streamed_count);
    if (tiles.keys > 0) {
      problem.key_tile_count += static_cast<int32_t>(tiles_of(set.keys, tiles.keys));
    }
  }
  problem.key_tiles = arena.take<KeyTile>(problem.key_tile_count);
}

std::vector<std::byte> build_tables(const Problem& problem, const TileSizes& tiles,
                                    std::span<const int64_t* const> intervals,
                                    const void* workspace) {
  Problem placed = problem;
  Arena arena(nullptr);
  place_tables(placed, tiles, arena);
  std::vector<std::byte> image(arena.bytes());
  const auto host = [&](const auto* device) { return on_host(image, workspace, device); };

  std::vector<int64_t> row_weights(problem.row_tile_count, 0);
  std::vector<int64_t> key_weights;
  std::vector<KeyTile> key_tiles;
  for (int s = 0; s < problem.set_count; ++s) {
    const KeySet& set = problem.sets[s];
    Span* spans = host(set.spans);
    for (int64_t row = 0; row < problem.rows; ++row) {
      const int64_t begin = intervals[s][2 * row];
      const int64_t end = intervals[s][2 * row + 1];
      require(0 <= begin && begin <= end && end <= set.keys, "row ", row, " sees the stored keys [",
              begin, ",", end, ") of key set ", s, ", which has ", set.keys);
      spans[row] = {static_cast<int32_t>(begin), static_cast<int32_t>(end)};
    }
    std::fill(spans + problem.rows, spans + problem.padded_rows, Span{0, 0});
    const std::span<const Span> rows(spans, static_cast<size_t>(problem.rows));
    Cover* covers = host(set.covers);
    fill_covers(rows, tiles.rows, covers);
    for (int32_t t = 0; t < problem.row_tile_count; ++t) {
      row_weights[t] += covers[t].end - covers[t].begin;
    }
    if (tiles.keys == 0) {
      continue;
    }
    Cover* streamed = host(set.streamed);
    fill_covers(rows, tiles.streamed, streamed);
    // How many tiles of rows see each tile of keys, from where runs of them begin and end.
    const int64_t count = tiles_of(set.keys, tiles.keys);
    std::vector<int64_t> seen(count + 1, 0);
    for (int32_t t = 0; t < problem.streamed_count; ++t) {
      if (streamed[t].begin < streamed[t].end) {
        ++seen[streamed[t].begin / tiles.keys];
        --seen[(streamed[t].end - 1) / tiles.keys + 1];
      }
    }
    std::partial_sum(seen.begin(), seen.end(), seen.begin());
    for (int64_t t = 0; t < count; ++t) {
      key_tiles.push_back({s, static_cast<int32_t>(t)});
      key_weights.push_back(seen[t]);
    }
  }
  const std::vector<int32_t> row_order = heaviest_first(row_weights);
  std::copy(row_order.begin(), row_order.end(), host(problem.row_tiles));
  KeyTile* ordered = host(problem.key_tiles);
  for (const int32_t t : heaviest_first(key_weights)) {
    *ordered++ = key_tiles[t];
  }
  return image;
}

}  // namespace bdlm::cuda
