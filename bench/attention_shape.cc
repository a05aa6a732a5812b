#include "bench/attention_shape.h"

#include <nlohmann/json.hpp>

#include "reference/base/error.h"
#include "reference/base/json_file.h"
#include "reference/layout/visibility.h"

namespace bdlm {
namespace {

MaskKind mask_named(const std::string& name) {
  const std::pair<const char*, MaskKind> known[] = {
      {"causal", MaskKind::causal},
      {"full", MaskKind::full},
      {"sliding", MaskKind::sliding},
      {"block_diffusion", MaskKind::block_diffusion},
  };
  for (const auto& [text, mask] : known) {
    if (name == text) {
      return mask;
    }
  }
  throw InputError(
      join("the mask is '", name, "'; known are causal, full, sliding and block_diffusion"));
}

}  // namespace

std::vector<BenchShape> read_shapes(const std::string& path) {
  constexpr int64_t most = int64_t{1} << 24;
  const Json json = read_json_file(path);
  require(json.is_array(), path, " is no list of shapes");
  std::vector<BenchShape> shapes;
  for (const Json& entry : json) {
    const JsonView at = view(entry, path);
    BenchShape shape;
    shape.name = get_string(at, "name");
    shape.mask = mask_named(get_string(at, "mask"));
    shape.length = get_int(at, "length", 1, most);
    shape.block = get_int_or(at, "block", 1, most, 0);
    shape.window = get_int_or(at, "window", 1, most, 0);
    shape.q_heads = get_int(at, "q_heads", 1, 65535);
    shape.kv_heads = get_int(at, "kv_heads", 1, shape.q_heads);
    shape.head_dim = get_int(at, "head_dim", 1, 512);
    require((shape.mask == MaskKind::block_diffusion) == (shape.block > 0) &&
                (shape.mask == MaskKind::sliding) == (shape.window > 0),
            shape.name, ": a block size is for block_diffusion, a window for sliding");
    shapes.push_back(shape);
  }
  return shapes;
}

std::vector<std::vector<int64_t>> bench_intervals(const BenchShape& shape) {
  std::vector<std::vector<int64_t>> out(shape.streams());
  const int64_t n = shape.length;
  for (auto& intervals : out) {
    intervals.reserve(2 * shape.rows());
  }
  const auto add = [&](int64_t stream, const Interval& keys) {
    out[stream].push_back(keys.empty() ? 0 : keys.begin);
    out[stream].push_back(keys.empty() ? 0 : keys.end);
  };
  if (shape.mask != MaskKind::block_diffusion) {
    for (int64_t row = 0; row < n; ++row) {
      const int64_t first =
          shape.mask == MaskKind::sliding ? std::max<int64_t>(0, row + 1 - shape.window) : 0;
      add(0, {first, shape.mask == MaskKind::full ? n : row + 1});
    }
    return out;
  }
  const Sequence sequence = Sequence::uniform(n, shape.block);
  const LayerRule rule{CleanRule::block_causal, 0};
  for (const Stream query : {Stream::clean, Stream::corrupted}) {
    for (int64_t row = 0; row < n; ++row) {
      for (const Stream key : {Stream::clean, Stream::corrupted}) {
        add(static_cast<int64_t>(key), visible(sequence, rule, query, row, key));
      }
    }
  }
  return out;
}

double pairs_of(const std::vector<std::vector<int64_t>>& intervals) {
  double pairs = 0;
  for (const auto& set : intervals) {
    for (size_t i = 0; i < set.size(); i += 2) {
      pairs += static_cast<double>(set[i + 1] - set[i]);
    }
  }
  return pairs;
}

}  // namespace bdlm
