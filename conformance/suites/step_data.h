#pragma once
// Training steps to judge: small models, tokens, draws and supervision of every kind.

#include <cstdint>
#include <string>
#include <vector>

#include "conformance/suites/step_judge.h"

namespace bdlm {

enum class ObjectiveKind : uint8_t { masked_block, complementary_views };
const char* name(ObjectiveKind kind);
/// Throws InputError naming the known objectives.
ObjectiveKind parse_objective(const std::string& text);

/// Which tokens carry a label.
enum class Supervision : uint8_t {
  all,         ///< every token
  most,        ///< a random four in five
  first_half,  ///< none in the second half: some ranks have none
  one,         ///< a single token
};
const char* name(Supervision supervision);

struct StepSettings {
  DenseConfig config;
  Sequence sequence = Sequence::uniform(1, 1);
  /// (L) token ids below the vocabulary; empty for random ones.
  std::vector<int64_t> tokens;
  ObjectiveKind objective = ObjectiveKind::masked_block;
  Supervision supervision = Supervision::all;
  /// Leading tokens that carry no label, whatever `supervision` says.
  int64_t prompt = 0;
  /// The weight of the clean next-token loss; 0 for none.
  double clean_loss = 0;
  /// All blocks at this noise instead of drawn; 0 for drawn. Only masked_block.
  double noise = 0;
  int64_t mask_token = 0;
  StepOptions options;
  uint64_t seed = 1;
};

/// The numbers in which small models differ.
struct SmallModel {
  int64_t hidden = 1, head_dim = 1, mlp = 1, vocab = 1;
};

/// Two layers of 4 query and 2 KV heads, the first under the rule, the second full, so that what
/// one layer gets wrong passes through attention again.
DenseConfig two_layers(const LayerRule& rule, const SmallModel& model);

/// Draws, views and parameters from the seed. Throws InputError where the settings contradict each
/// other.
StepProblem make_step(const StepSettings& settings);

}  // namespace bdlm
