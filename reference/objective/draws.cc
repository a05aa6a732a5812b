#include "reference/objective/draws.h"

#include "reference/base/error.h"
#include "reference/base/philox.h"

namespace bdlm {
namespace {

// The Philox tensor numbers of what is drawn. Token draws are told apart by the sequence, block
// draws by their index in the batch.
constexpr uint32_t token_tensor = 0;
constexpr uint32_t block_tensor = 1;
constexpr uint32_t offset_tensor = 2;

std::vector<double> token_draws(const Sequence& sequence, const DrawOptions& options) {
  const Philox random(options.seed, token_tensor, options.sequence);
  std::vector<double> u(sequence.length());
  for (size_t i = 0; i < u.size(); ++i) {
    u[i] = random.uniform(i);
  }
  return u;
}

std::vector<double> block_draws(const Sequence& sequence, const DrawOptions& options) {
  require(options.first_block >= 0, "the first block of a sequence is ", options.first_block,
          "; it must not be negative");
  const Philox random(options.seed, block_tensor);
  std::vector<double> s(sequence.blocks());
  for (size_t b = 0; b < s.size(); ++b) {
    s[b] = random.uniform(options.first_block + b);
  }
  return s;
}

}  // namespace

std::vector<double> antithetic_draws(double u, int64_t first_block, int64_t blocks,
                                     int64_t batch_blocks) {
  require(u >= 0 && u < 1, "the shared draw is ", u, "; allowed is [0, 1)");
  require(first_block >= 0 && blocks >= 0 && first_block + blocks <= batch_blocks, "the blocks ",
          Interval{first_block, first_block + blocks}, " are not among the batch's ", batch_blocks);
  std::vector<double> s(blocks);
  for (int64_t b = 0; b < blocks; ++b) {
    const double shifted =
        u + static_cast<double>(first_block + b) / static_cast<double>(batch_blocks);
    s[b] = shifted < 1 ? shifted : shifted - 1;
  }
  return s;
}

Draws masked_block_draws(const Sequence& sequence, const DrawOptions& options) {
  Draws draws;
  if (options.sampling == BlockSampling::antithetic) {
    const double u = Philox(options.seed, offset_tensor).uniform(0);
    const int64_t all = options.batch_blocks == 0 ? sequence.blocks() : options.batch_blocks;
    draws.block = antithetic_draws(u, options.first_block, sequence.blocks(), all);
  } else {
    draws.block = block_draws(sequence, options);
  }
  for (double& t : draws.block) {
    t = noise_of(t);
  }
  draws.token = token_draws(sequence, options);
  return draws;
}

Draws complementary_draws(const Sequence& sequence, const DrawOptions& options) {
  return {block_draws(sequence, options), token_draws(sequence, options)};
}

void check(const Draws& draws, const Sequence& sequence) {
  require(static_cast<int64_t>(draws.block.size()) == sequence.blocks(), "there are ",
          draws.block.size(), " block draws for ", sequence.blocks(), " blocks");
  require(static_cast<int64_t>(draws.token.size()) == sequence.length(), "there are ",
          draws.token.size(), " token draws for ", sequence.length(), " tokens");
  for (size_t b = 0; b < draws.block.size(); ++b) {
    const double t = draws.block[b];
    require(t >= 0 && t <= 1, "the noise of block ", b, " is ", t, "; allowed is [0, 1]");
  }
  for (size_t i = 0; i < draws.token.size(); ++i) {
    const double u = draws.token[i];
    require(u >= 0 && u < 1, "the draw of token ", i, " is ", u, "; allowed is [0, 1)");
  }
}

}  // namespace bdlm
