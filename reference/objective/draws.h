#pragma once
// The random inputs of an objective. Objectives take them as arguments, so that a case can be
// reproduced by anyone; the generators here make them from a seed.

#include <cstdint>
#include <span>
#include <vector>

#include "reference/layout/sequence.h"

namespace bdlm {

/// The least noise of a block: its inverse, a loss weight, stays bounded by 1000.
inline constexpr double min_noise = 1e-3;

/// `t = eps + (1 - eps) s` with eps = `min_noise`: noise in [eps, 1] from a uniform draw.
inline double noise_of(double s) {
  return min_noise + (1 - min_noise) * s;
}

struct Draws {
  /// (B) t_b, the noise of each block.
  std::vector<double> block;
  /// (L) u_i in [0, 1): token i is corrupted when u_i lies below its block's probability.
  std::vector<double> token;
};

enum class BlockSampling : uint8_t {
  /// Block n of the batch's N gets `(u + n/N) mod 1` with one u: noise spread evenly over a batch.
  antithetic,
  /// A draw of its own for each block.
  independent,
};

struct DrawOptions {
  uint64_t seed = 0;
  BlockSampling sampling = BlockSampling::antithetic;
  /// The batch index of the sequence's first block, and N; 0 means that the sequence is the batch.
  int64_t first_block = 0;
  int64_t batch_blocks = 0;
  /// Which sequence of the batch this is; sequences have token draws of their own.
  uint32_t sequence = 0;
};

/// s_b for the blocks `[first_block, first_block + blocks)` of a batch, in [0, 1).
std::vector<double> antithetic_draws(double u, int64_t first_block, int64_t blocks,
                                     int64_t batch_blocks);

/// Draws for masked_block: t_b = noise_of(s_b), s_b sampled as the options say.
Draws masked_block_draws(const Sequence& sequence, const DrawOptions& options);

/// Draws for complementary_views: t_b uniform in [0, 1), independent whatever the options say.
Draws complementary_draws(const Sequence& sequence, const DrawOptions& options);

/// Throws InputError unless there is one t in [0, 1] for every block and one u in [0, 1) for every
/// token.
void check(const Draws& draws, const Sequence& sequence);

}  // namespace bdlm
