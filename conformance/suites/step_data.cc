#include "conformance/suites/step_data.h"

#include "reference/base/philox.h"
#include "reference/objective/clean_next_token.h"
#include "reference/objective/complementary_views.h"
#include "reference/objective/masked_block.h"

namespace bdlm {
namespace {

// Philox tensors beyond those of parameters and draws.
constexpr uint32_t token_tensor = 1000;
constexpr uint32_t supervision_tensor = 1001;

std::vector<uint8_t> supervise(const Sequence& sequence, Supervision supervision, uint64_t seed) {
  const int64_t length = sequence.length();
  std::vector<uint8_t> out(length, 0);
  const Philox random(seed, supervision_tensor);
  for (int64_t i = 0; i < length; ++i) {
    switch (supervision) {
      case Supervision::all:
        out[i] = 1;
        break;
      case Supervision::most:
        out[i] = random.uniform(i) < 0.8 ? 1 : 0;
        break;
      case Supervision::first_half:
        out[i] = 2 * i < length ? 1 : 0;
        break;
      case Supervision::one:
        // Not the first of a document, which a shifted objective cannot score.
        out[i] = sequence.position(i) == 1 ? 1 : 0;
        if (out[i] == 1) {
          return out;
        }
        break;
    }
  }
  return out;
}

}  // namespace

const char* name(ObjectiveKind kind) {
  return kind == ObjectiveKind::masked_block ? "masked_block" : "complementary_views";
}

ObjectiveKind parse_objective(const std::string& text) {
  for (const ObjectiveKind kind :
       {ObjectiveKind::masked_block, ObjectiveKind::complementary_views}) {
    if (text == name(kind)) {
      return kind;
    }
  }
  throw InputError(
      join("unknown objective '", text, "'; known are masked_block, complementary_views"));
}

const char* name(Supervision supervision) {
  switch (supervision) {
    case Supervision::all:
      return "all";
    case Supervision::most:
      return "most";
    case Supervision::first_half:
      return "firsthalf";
    case Supervision::one:
      return "one";
  }
  return "?";
}

DenseConfig two_layers(const LayerRule& rule, const SmallModel& model) {
  DenseConfig config;
  config.layers = 2;
  config.hidden = model.hidden;
  config.q_heads = 4;
  config.kv_heads = 2;
  config.head_dim = model.head_dim;
  config.mlp = model.mlp;
  config.vocab = model.vocab;
  config.rules = {rule, {rule.clean, 0}};
  return config;
}

StepProblem make_step(const StepSettings& s) {
  check(s.config);
  const int64_t vocab = s.config.vocab;
  TokenSequence example{s.sequence, s.tokens, supervise(s.sequence, s.supervision, s.seed)};
  std::fill(example.supervised.begin(), example.supervised.begin() + s.prompt, 0);
  if (example.tokens.empty()) {
    const Philox random(s.seed, token_tensor);
    for (int64_t i = 0; i < s.sequence.length(); ++i) {
      // Any id but the mask token.
      const int64_t id = random.below(i, vocab - 1);
      example.tokens.push_back(id < s.mask_token ? id : id + 1);
    }
  }
  const bool exclude = s.config.excluded_logit == s.mask_token;
  // Named, so that running out of memory here finds nothing half made.
  DenseCase dense{s.config, example, {}};
  DenseParameters<double> parameters = random_parameters(s.config, s.seed);
  StepProblem problem{std::move(dense), std::move(parameters), s.clean_loss > 0, s.options};
  std::vector<View>& views = problem.dense.views;
  if (s.objective == ObjectiveKind::masked_block) {
    Draws draws = masked_block_draws(s.sequence, {.seed = s.seed});
    if (s.noise > 0) {
      draws.block.assign(draws.block.size(), s.noise);
      // At the lowest noise hardly a token would be masked, and none scored: some are made to be.
      for (size_t i = 0; i < draws.token.size(); i += 3) {
        draws.token[i] = 0;
      }
    }
    views = {
        masked_block(example, draws,
                     {.vocab = vocab, .mask_token = s.mask_token, .exclude_mask_logit = exclude})};
  } else {
    const Draws draws = complementary_draws(s.sequence, {.seed = s.seed});
    const auto both = complementary_views(
        example, draws,
        {.vocab = vocab, .mask_token = s.mask_token, .exclude_mask_logit = exclude});
    views.assign(both.begin(), both.end());
  }
  if (s.clean_loss > 0) {
    const std::vector<LossTerm> more = clean_next_token(
        example, s.config.rules,
        {.vocab = vocab, .weight = s.clean_loss, .excluded_logit = s.config.excluded_logit});
    views[0].terms.insert(views[0].terms.end(), more.begin(), more.end());
  }
  return problem;
}

}  // namespace bdlm
