#pragma once
// The dimensions and options of a dense transformer.

#include <cstdint>
#include <vector>

#include "reference/base/error.h"
#include "reference/layout/visibility.h"

namespace bdlm {

/// A decoder with pre-norms, grouped-query attention, rotary positions and SwiGLU, as in the Llama
/// and Qwen3 families.
struct DenseConfig {
  int64_t layers = 1;
  int64_t hidden = 8;
  int64_t q_heads = 2;
  /// Query head h reads KV head h / (q_heads / kv_heads).
  int64_t kv_heads = 1;
  /// Even, as rotary positions rotate pairs.
  int64_t head_dim = 4;
  /// The width of the SwiGLU.
  int64_t mlp = 16;
  int64_t vocab = 16;
  /// Whether the head's matrix is the embedding.
  bool tied = false;
  /// Whether q and k are RMS-normalised per head, before the rotation.
  bool qk_norm = false;
  double rope_theta = 10000;
  double rms_eps = 1e-6;
  /// The mask of each layer.
  std::vector<LayerRule> rules = {LayerRule{}};
  /// Logits become `softcap * tanh(logit / softcap)`; 0 leaves them alone.
  double softcap = 0;
  /// The id whose logit is left out of the softmax, after the softcap; -1 for none.
  int64_t excluded_logit = -1;
};

/// Throws InputError where the options do not describe a model.
inline void check(const DenseConfig& config) {
  const auto positive = [](const char* what, int64_t value) {
    require(value >= 1, what, " is ", value, "; at least 1 is needed");
  };
  positive("layers", config.layers);
  positive("hidden", config.hidden);
  positive("q_heads", config.q_heads);
  positive("kv_heads", config.kv_heads);
  positive("head_dim", config.head_dim);
  positive("mlp", config.mlp);
  positive("vocab", config.vocab);
  require(config.q_heads % config.kv_heads == 0, "q_heads is ", config.q_heads,
          "; it must be a multiple of kv_heads, ", config.kv_heads);
  require(config.head_dim % 2 == 0, "head_dim is ", config.head_dim, "; it must be even");
  require(config.rope_theta > 0, "rope_theta is ", config.rope_theta, "; it must be positive");
  require(config.rms_eps >= 0, "rms_eps is ", config.rms_eps, "; it must not be negative");
  require(config.softcap >= 0, "softcap is ", config.softcap, "; it must not be negative");
  require(static_cast<int64_t>(config.rules.size()) == config.layers, "there are ",
          config.rules.size(), " layer rules for ", config.layers, " layers");
  for (const LayerRule& rule : config.rules) {
    require(rule.window >= 0, "a window is ", rule.window, "; allowed is 0 (full) or more");
  }
  require(-1 <= config.excluded_logit && config.excluded_logit < config.vocab, "excluded_logit is ",
          config.excluded_logit, "; allowed is -1 (none) or an id below ", config.vocab);
  require(config.excluded_logit < 0 || config.vocab >= 2,
          "a vocabulary of 1 has no logit to leave out");
}

}  // namespace bdlm
