#include "conformance/cli/prove_model.h"

#include <fstream>

#include "conformance/cli/options.h"
#include "reference/base/error.h"
#include "reference/base/text.h"
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
  // What the proof's model does not compute must not be dropped.
  require(!a.attention_scale, "model '", a.name, "' scales attention by ",
          a.attention_scale.value_or(0), "; the proof scales by 1/sqrt(head_dim)");
  for (const LayerShape& layer : a.layers) {
    require(layer.rope_fraction == 1, "model '", a.name, "' rotates a fraction of ",
            layer.rope_fraction, " of each head; the proof rotates all of it");
    require(layer.rope_theta == a.layers[0].rope_theta, "model '", a.name, "' has rope_theta ",
            a.layers[0].rope_theta, " and ", layer.rope_theta,
            " on different layers; the proof has one");
  }
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

void add_model_options(CLI::App& command, ModelOptions& o) {
  constexpr int64_t most = int64_t{1} << 20;
  add_text(command, "--model", o.name, "A known dense model, or a config.json");
  add_integer(command, "--layers", o.layers, 1, 1024, "Layers; default 2, or the model's");
  add_integer(command, "--hidden", o.hidden, 1, most, "Width; default 64");
  add_integer(command, "--heads", o.q_heads, 1, most, "Query heads; default 4");
  add_integer(command, "--kv-heads", o.kv_heads, 1, most, "KV heads; default 2");
  add_integer(command, "--head-dim", o.head_dim, 2, most, "Channels of a head, even; default 16");
  add_integer(command, "--mlp", o.mlp, 1, most, "Width of the MLP; default 192");
  add_integer(command, "--vocab", o.vocab, 2, most,
              "Ids, the last one the mask token; default 257");
  add_integer(command, "--window", o.window, 1, int64_t{1} << 31,
              "Keys in the sliding window of every other layer, from the first");
  add_text(command, "--clean", o.clean, "block-causal or token-causal clean rows");
}

DenseConfig make_config(const ModelOptions& o) {
  DenseConfig c = o.name.empty() ? small_default() : from_architecture(find_architecture(o.name));
  c.hidden = o.hidden.value_or(c.hidden);
  c.q_heads = o.q_heads.value_or(c.q_heads);
  c.kv_heads = o.kv_heads.value_or(c.kv_heads);
  c.head_dim = o.head_dim.value_or(c.head_dim);
  c.mlp = o.mlp.value_or(c.mlp);
  c.vocab = o.vocab.value_or(c.vocab);
  const int64_t layers = o.layers.value_or(c.layers);
  // More layers than the model has repeat its pattern.
  const std::vector<LayerRule> pattern = c.rules;
  c.layers = layers;
  c.rules.clear();
  for (int64_t n = 0; n < layers; ++n) {
    c.rules.push_back(pattern[n % pattern.size()]);
  }
  if (o.window) {
    for (int64_t n = 0; n < layers; ++n) {
      c.rules[n].window = n % 2 == 0 ? *o.window : 0;
    }
  }
  if (!o.clean.empty()) {
    require(o.clean == "block-causal" || o.clean == "token-causal", "--clean is '",
            printable(o.clean), "'; allowed are block-causal, token-causal");
    for (LayerRule& rule : c.rules) {
      rule.clean = o.clean == "block-causal" ? CleanRule::block_causal : CleanRule::token_causal;
    }
  }
  check(c);
  return c;
}

void check_memory(const DenseConfig& config, int64_t length, int ranks, int views, bool processes) {
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
  // Weights (of every process), the gradients of two monolithic steps, and those of every rank;
  // what the rows of both streams keep of every layer, one view at a time; logits of a chunk of
  // rows; and the allocator's share.
  const auto d = [](int64_t n) { return static_cast<double>(n); };
  // In floating point: sizes from a file may be beyond what 64 bits count.
  const double layer =
      d(config.hidden) * (2 * d(config.q_heads) + 2 * d(config.kv_heads)) * d(config.head_dim) +
      3 * d(config.hidden) * d(config.mlp);
  const double parameters = d(config.layers) * layer + 2 * d(config.vocab) * d(config.hidden);
  const double copies = 3.0 + ranks + (processes ? ranks - 1 : 0);
  const double rows = 2 * d(length);
  const double row = 8 * d(config.layers) *
                     (4 * d(config.hidden) + 3 * d(config.mlp) +
                      6 * (d(config.q_heads) + d(config.kv_heads)) * d(config.head_dim));
  const double logits = 8.0 * 256 * d(config.vocab) * (1 + views);
  const double needed = 1.2 * (8 * parameters * copies + 2 * rows * row + logits);
  constexpr double gib = 1024.0 * 1024.0 * 1024.0;
  require(needed <= available, "the proof needs about ", needed / gib, " GiB, and ",
          available / gib,
          " GiB are free; fewer --layers, a smaller --vocab, --length or --ranks need less");
}

}  // namespace bdlm
