#include "conformance/cli/prove_model.h"

#include <fstream>

#include "reference/base/error.h"
#include "reference/layout/config_json.h"
#include "reference/model/parameter_table.h"

namespace bdlm {
namespace {

DenseConfig small_default() {
  DenseConfig c;
  c.layers = 2;
  c.hidden = 64;
  c.q_heads = 4;
  c.kv_heads = 2;
  c.head_dim = 16;
  c.mlp = 192;
  c.vocab = 257;  // every byte, and the mask token
  c.rules = {LayerRule{}, LayerRule{}};
  return c;
}

DenseConfig from_architecture(const Architecture& a) {
  require(a.family == Family::dense_gqa, "model '", a.name, "' is of the family ", name(a.family),
          "; the proof runs models of the family dense_gqa");
  require(!a.qkv_bias, "model '", a.name, "' has biases on Q, K and V, which the proof does not");
  require(a.rope_type == "default", "model '", a.name, "' scales rotary positions by '",
          a.rope_type, "'; the proof computes them unscaled");
  DenseConfig c;
  c.layers = a.layer_count();
  c.hidden = a.hidden;
  c.q_heads = a.layers.at(0).q_heads;
  c.kv_heads = a.layers[0].kv_heads;
  c.head_dim = a.layers[0].head_dim;
  c.mlp = a.mlp;
  c.vocab = a.vocab;
  c.tied = a.tied;
  c.qk_norm = a.qk_norm;
  c.rope_theta = a.layers[0].rope_theta;
  c.rms_eps = a.rms_eps;
  c.softcap = a.final_softcap.value_or(0);
  c.rules.clear();
  for (int64_t n = 0; n < a.layer_count(); ++n) {
    c.rules.push_back(a.rule(n));
  }
  return c;
}

}  // namespace

void add_model_options(CLI::App& command, ModelOptions& options) {
  command.add_option("--model", options.name, "A known dense model, or a config.json");
  command.add_option("--layers", options.layers, "Layers; default 2, or the model's");
  command.add_option("--hidden", options.hidden, "Width; default 64");
  command.add_option("--heads", options.q_heads, "Query heads; default 4");
  command.add_option("--kv-heads", options.kv_heads, "KV heads; default 2");
  command.add_option("--head-dim", options.head_dim, "Channels of a head; default 16");
  command.add_option("--mlp", options.mlp, "Width of the MLP; default 192");
  command.add_option("--vocab", options.vocab, "Ids, the last one the mask token; default 257");
  command.add_option("--window", options.window,
                     "Keys in the sliding window of every other layer, from the first");
  command.add_option("--clean", options.clean, "block-causal or token-causal clean rows");
}

DenseConfig make_config(const ModelOptions& o) {
  DenseConfig c = o.name.empty() ? small_default() : from_architecture(find_architecture(o.name));
  c.hidden = o.hidden.value_or(c.hidden);
  c.q_heads = o.q_heads.value_or(c.q_heads);
  c.kv_heads = o.kv_heads.value_or(c.kv_heads);
  c.head_dim = o.head_dim.value_or(c.head_dim);
  c.mlp = o.mlp.value_or(c.mlp);
  c.vocab = o.vocab.value_or(c.vocab);
  require(c.vocab >= 2, "--vocab is ", c.vocab,
          "; it must be at least 2, as the last id is the mask");
  const int64_t layers = o.layers.value_or(c.layers);
  require(layers >= 1 && layers <= 1024, "--layers is ", layers, "; allowed is 1 to 1024");
  // More layers than the model has repeat its pattern.
  const std::vector<LayerRule> pattern = c.rules;
  c.layers = layers;
  c.rules.clear();
  for (int64_t n = 0; n < layers; ++n) {
    c.rules.push_back(pattern[n % pattern.size()]);
  }
  if (o.window) {
    require(*o.window >= 1, "--window is ", *o.window,
            "; it must be at least 1 (without --window layers are full, or as the model has them)");
    for (int64_t n = 0; n < layers; ++n) {
      c.rules[n].window = n % 2 == 0 ? *o.window : 0;
    }
  }
  if (!o.clean.empty()) {
    require(o.clean == "block-causal" || o.clean == "token-causal", "--clean is '", o.clean,
            "'; allowed are block-causal, token-causal");
    for (LayerRule& rule : c.rules) {
      rule.clean = o.clean == "block-causal" ? CleanRule::block_causal : CleanRule::token_causal;
    }
  }
  for (const auto& [what, value] : {std::pair{"--hidden", c.hidden},
                                    {"--heads", c.q_heads},
                                    {"--kv-heads", c.kv_heads},
                                    {"--head-dim", c.head_dim},
                                    {"--mlp", c.mlp},
                                    {"--vocab", c.vocab}}) {
    require(value >= 1 && value <= int64_t{1} << 20, what, " is ", value,
            "; allowed is 1 to 1048576");
  }
  check(c);
  return c;
}

void check_memory(const DenseConfig& config, int64_t length, int ranks) {
  std::ifstream info("/proc/meminfo");
  double available = 0;
  for (std::string key; info >> key;) {
    if (key == "MemAvailable:") {
      info >> available;
      available *= 1024;
      break;
    }
  }
  if (available == 0) {
    return;
  }
  // Weights, the gradients of two monolithic steps, and those of every rank; then about what the
  // rows of both streams keep of every layer.
  const auto parameters = static_cast<double>(ParameterTable(config).size());
  const double rows = 2.0 * static_cast<double>(length);
  const double row = 8.0 * static_cast<double>(config.layers) *
                     static_cast<double>(4 * config.hidden + 3 * config.mlp +
                                         6 * (config.q_heads + config.kv_heads) * config.head_dim);
  const double needed = 8 * parameters * (3 + ranks) + 2 * rows * row;
  constexpr double gib = 1024.0 * 1024.0 * 1024.0;
  require(needed <= available, "the proof needs about ", needed / gib, " GiB, and ",
          available / gib,
          " GiB are free; fewer --layers, a smaller --vocab, --length or --ranks need less");
}

}  // namespace bdlm
