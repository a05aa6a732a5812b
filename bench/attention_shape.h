#pragma once
// The attention shapes that backends and their peers are timed on.

#include <cstdint>
#include <string>
#include <vector>

namespace bdlm {

/// causal, full and sliding: L rows on L keys of one stream. block_diffusion: the L clean and the L
/// corrupted rows on the L clean and the L corrupted keys, block-causal.
enum class MaskKind { causal, full, sliding, block_diffusion };

struct BenchShape {
  std::string name;
  MaskKind mask = MaskKind::causal;
  int64_t length = 0;
  int64_t block = 0;   ///< M; block_diffusion alone
  int64_t window = 0;  ///< keys, the row's own included; sliding alone
  int64_t q_heads = 1, kv_heads = 1, head_dim = 1;

  int64_t streams() const { return mask == MaskKind::block_diffusion ? 2 : 1; }
  /// Rows of all streams.
  int64_t rows() const { return streams() * length; }
};

/// Reads shapes as bench/attention_shapes.json has them. Throws FileError or InputError.
std::vector<BenchShape> read_shapes(const std::string& path);

/// What every row sees of each stream's keys, (rows, 2) by stream.
std::vector<std::vector<int64_t>> bench_intervals(const BenchShape& shape);

/// Pairs of a row and a key that it sees.
double pairs_of(const std::vector<std::vector<int64_t>>& intervals);

}  // namespace bdlm
