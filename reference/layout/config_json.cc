#include "reference/layout/config_json.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "reference/base/error.h"
#include "reference/base/json_file.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

constexpr int64_t largest = int64_t{1} << 31;
constexpr int64_t most_layers = 65536;
constexpr int64_t most_heads = 65536;

bool supported(const std::string& model_type) {
  const auto& types = config_model_types();
  return std::find(types.begin(), types.end(), model_type) != types.end();
}

/// The object with the decoder's keys: the document, or its text_config.
JsonView text_model(const JsonView& document) {
  const std::string outer = get_string_or(document, "model_type", "");
  const bool nested = find(document, "text_config").has_value();
  const JsonView model = nested ? get_object(document, "text_config") : document;
  const std::string inner = nested ? get_string_or(model, "model_type", outer) : outer;
  require(!inner.empty(), document.source, ": key 'model_type' is missing; supported are ",
          listed(config_model_types()));
  require(supported(inner), document.source, ": key 'model_type' is \"", printable(inner),
          "\", a model of another family; supported are ", listed(config_model_types()));
  return model;
}

/// Keys that say that the model is more than its type promises.
void reject_other_families(const JsonView& model) {
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts",
                          "linear_num_value_heads", "q_lora_rank", "kv_lora_rank"}) {
    const auto at = find(model, key);
    require(!at || *at->value == 0, at ? place(*at) : "",
            " marks a mixture of experts, linear or latent attention; supported are dense models "
            "with grouped-query attention");
  }
  const std::string act = get_string_or(model, "hidden_act", "silu");
  require(act == "silu" || act == "swish", model.source, ": key 'hidden_act' is \"", printable(act),
          "\"; allowed is \"silu\"");
  require(!get_bool_or(model, "mlp_bias", false), model.source,
          ": key 'mlp_bias' is true; allowed is false");
}

/// The parameters of rotary positions: for layers of one type, for all, or at the top level.
JsonView rope_of(const JsonView& model, const char* layer_type) {
  for (const std::string& key : {join("rope_parameters.", layer_type), join("rope_parameters")}) {
    const auto at = find(model, key);
    if (at && at->value->is_object() && find(*at, "rope_theta")) {
      return *at;
    }
  }
  return model;
}

std::string rope_type_of(const JsonView& model) {
  for (const char* key : {"rope_parameters.full_attention.rope_type", "rope_parameters.rope_type",
                          "rope_parameters.type", "rope_scaling.rope_type", "rope_scaling.type"}) {
    const auto at = find(model, key);
    if (at) {
      return as_string(*at);
    }
  }
  return "default";
}

std::vector<LayerKind> layer_kinds(const JsonView& model, const std::string& model_type,
                                   int64_t layers) {
  std::vector<LayerKind> kinds(layers, LayerKind::full);
  if (const auto types = find(model, "layer_types")) {
    const std::vector<JsonView> list = as_array(*types);
    require(static_cast<int64_t>(list.size()) == layers, place(*types), " has ", list.size(),
            " entries; num_hidden_layers is ", layers);
    for (int64_t i = 0; i < layers; ++i) {
      const std::string text = as_string(list[i]);
      require(text == "full_attention" || text == "sliding_attention", place(list[i]), " is \"",
              printable(text), "\"; allowed are \"full_attention\", \"sliding_attention\"");
      kinds[i] = text == "sliding_attention" ? LayerKind::sliding : LayerKind::full;
    }
    return kinds;
  }
  const bool qwen = model_type.rfind("qwen", 0) == 0;
  const bool windowed =
      find(model, "sliding_window") && get_bool_or(model, "use_sliding_window", !qwen);
  if (windowed) {
    // Qwen files say how many leading layers are full; elsewhere all layers slide.
    const int64_t full = qwen ? get_int(model, "max_window_layers", 0, largest)
                              : get_int_or(model, "max_window_layers", 0, largest, 0);
    std::fill(kinds.begin() + std::min(full, layers), kinds.end(), LayerKind::sliding);
  }
  return kinds;
}

}  // namespace

const std::vector<std::string>& config_model_types() {
  static const std::vector<std::string> types = {"llama",   "ministral", "ministral3",
                                                 "mistral", "mistral3",  "nemotron_labs_diffusion",
                                                 "qwen2",   "qwen3"};
  return types;
}

Architecture read_config_json(const std::string& path) {
  const Json document = read_json_file(path);
  const JsonView root = view(document, printable(path, 400));
  require(document.is_object(), root.source, ": not an object, as a config.json must be");
  const JsonView model = text_model(root);
  const std::string model_type =
      get_string_or(model, "model_type", get_string_or(root, "model_type", ""));
  reject_other_families(model);

  Architecture out;
  out.name = root.source;
  out.family = Family::dense_gqa;
  out.hidden = get_int(model, "hidden_size", 1, largest);
  out.mlp = get_int(model, "intermediate_size", 1, largest);
  out.vocab = get_int(model, "vocab_size", 1, largest);
  out.rms_eps =
      get_double(model, find(model, "rms_norm_eps") ? "rms_norm_eps" : "norm_eps", 1e-30, 1);
  // The flag of a nested model may be at either level.
  out.tied =
      get_bool_or(model, "tie_word_embeddings", get_bool_or(root, "tie_word_embeddings", false));
  out.qk_norm = model_type == "qwen3";
  out.qkv_bias = get_bool_or(model, "attention_bias", model_type == "qwen2");
  out.rope_type = rope_type_of(model);
  if (find(model, "mask_token_id")) {
    out.mask_token = get_int(model, "mask_token_id", 0, out.vocab - 1);
  }

  LayerShape layer;
  layer.q_heads = get_int(model, "num_attention_heads", 1, most_heads);
  layer.kv_heads = get_int(model, "num_key_value_heads", 1, layer.q_heads);
  require(layer.q_heads % layer.kv_heads == 0, root.source, ": key 'num_key_value_heads' is ",
          layer.kv_heads, "; allowed is a divisor of num_attention_heads, ", layer.q_heads);
  if (find(model, "head_dim")) {
    layer.head_dim = get_int(model, "head_dim", 1, most_heads);
  } else {
    require(out.hidden % layer.q_heads == 0, root.source,
            ": key 'head_dim' is missing and hidden_size, ", out.hidden,
            ", is no multiple of num_attention_heads, ", layer.q_heads);
    layer.head_dim = out.hidden / layer.q_heads;
  }
  require(layer.head_dim % 2 == 0, root.source, ": key 'head_dim' is ", layer.head_dim,
          "; allowed is an even number, as rotary positions rotate pairs");

  const int64_t layers = get_int(model, "num_hidden_layers", 1, most_layers);
  for (const LayerKind kind : layer_kinds(model, model_type, layers)) {
    layer.kind = kind;
    const bool sliding = kind == LayerKind::sliding;
    layer.window = sliding ? get_int(model, "sliding_window", 1, largest) : 0;
    const JsonView rope = rope_of(model, sliding ? "sliding_attention" : "full_attention");
    layer.rope_theta = get_double(rope, "rope_theta", 1, 1e300);
    const JsonView partial = find(rope, "partial_rotary_factor") ? rope : model;
    layer.rope_fraction = get_double_or(partial, "partial_rotary_factor", 0, 1, 1);
    out.layers.push_back(layer);
  }
  check(out);
  return out;
}

Architecture find_architecture(const std::string& name_or_path) {
  if (is_known_model(name_or_path)) {
    return known_architecture(name_or_path);
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(name_or_path, ignored)) {
    return read_config_json((std::filesystem::path(name_or_path) / "config.json").string());
  }
  const bool looks_like_path =
      name_or_path.find('/') != std::string::npos ||
      (name_or_path.size() > 5 && name_or_path.compare(name_or_path.size() - 5, 5, ".json") == 0);
  require(looks_like_path || std::filesystem::exists(name_or_path, ignored), "unknown model '",
          printable(name_or_path), "'; known are ", listed(known_models()),
          ", or the path of a config.json");
  return read_config_json(name_or_path);
}

}  // namespace bdlm
