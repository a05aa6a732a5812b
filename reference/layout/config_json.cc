#include "reference/layout/config_json.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "reference/base/error.h"
#include "reference/base/json_file.h"
#include "reference/base/text.h"
#include "reference/layout/config_keys.h"

namespace bdlm {
namespace {

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

/// What a missing key means, as far as the families differ; 0: see the comment.
struct Defaults {
  int64_t kv_heads = 0;  ///< 0: num_attention_heads
  int64_t head_dim = 0;  ///< 0: hidden_size / num_attention_heads
  int64_t window = 0;    ///< 0: none
  double theta = 0;      ///< 0: must be given
};

Defaults defaults_of(const std::string& model_type) {
  static const std::map<std::string, Defaults> table = {
      {"llama", {0, 0, 0, 1e4}},        {"mistral", {8, 0, 4096, 1e4}},
      {"ministral", {8, 0, 4096, 1e4}}, {"ministral3", {8, 128, 0, 0}},
      {"qwen2", {32, 0, 4096, 1e4}},    {"qwen3", {32, 128, 4096, 1e4}}};
  const auto it = table.find(model_type);
  return it == table.end() ? Defaults{} : it->second;
}

bool is_qwen(const std::string& model_type) {
  return model_type.rfind("qwen", 0) == 0;
}

/// Objects that say something of rotary positions, those of a layer type before the common ones.
/// `layer_type` may be empty. The model itself is last.
std::vector<JsonView> rope_sources(const JsonView& model, const std::string& layer_type) {
  std::vector<JsonView> out;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!find(model, key)) {
      continue;
    }
    const JsonView common = get_object(model, key);
    if (!layer_type.empty() && find(common, layer_type)) {
      out.push_back(get_object(common, layer_type));
    }
    out.push_back(common);
  }
  out.push_back(model);
  return out;
}

/// A number of the rotary positions of one layer type. Where no source is of the layer type, all
/// that have the key must agree, as readers differ in which one they believe. A `fallback` of 0 is
/// none.
double rope_number(const JsonView& model, const std::string& layer_type, const char* key,
                   double lowest, double highest, double fallback) {
  std::optional<JsonView> found;
  for (const JsonView& source : rope_sources(model, layer_type)) {
    const auto at = find(source, key);
    if (!at) {
      continue;
    }
    const double value = as_double(*at, lowest, highest);
    if (!found) {
      found = at;
      const std::string own = join('.', layer_type, '.');
      if (at->path.find(own) != std::string::npos) {
        break;
      }
    }
    require(value == found->value->get<double>(), place(*at), " is ", shown(*at->value),
            "; allowed is the value of '", found->path, "', ", shown(*found->value));
  }
  if (!found && fallback > 0) {
    return fallback;
  }
  return found ? found->value->get<double>() : get_double(model, key, lowest, highest);
}

/// The type of one object of rope parameters: "default", or the name of its scaling. Without such a
/// name nothing in it may scale.
std::string rope_type_of(const JsonView& rope) {
  for (const char* key : {"rope_type", "type"}) {
    const std::string type = get_string_or(rope, key, "default");
    if (type != "default") {
      return type;
    }
  }
  for (const auto& [key, at] : members(rope)) {
    if (is_off(*at.value) ||
        is_one_of(key, {"rope_type", "type", "rope_theta", "partial_rotary_factor",
                        "original_max_position_embeddings", "max_position_embeddings",
                        "full_attention", "sliding_attention"})) {
      continue;
    }
    const bool one = key == "factor" || key == "attention_factor";
    const bool zero = key == "llama_4_scaling_beta";
    require((one || zero) && at.value->is_number() && at.value->get<double>() == (one ? 1 : 0),
            place(at), " is ", shown(*at.value), " without a rope_type that scales; allowed is ",
            one ? "1" : (zero ? "0" : "null"), ", or a rope_type other than \"default\"");
  }
  return "default";
}

/// The first scaling anywhere, of any layer type.
std::string rope_type_of_all(const JsonView& model) {
  std::string out = "default";
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!find(model, key)) {
      continue;
    }
    const JsonView common = get_object(model, key);
    std::vector<JsonView> objects = {common};
    for (const char* layer_type : {"full_attention", "sliding_attention"}) {
      if (find(common, layer_type)) {
        objects.push_back(get_object(common, layer_type));
      }
    }
    for (const JsonView& object : objects) {
      const std::string type = rope_type_of(object);
      out = out == "default" ? type : out;
    }
  }
  return out;
}

/// The share of each head that is rotated.
double rope_fraction(const JsonView& model, const std::string& layer_type, int64_t head_dim) {
  const char* key = "partial_rotary_factor";
  const double fraction = rope_number(model, layer_type, key, 0, 1, 1.0);
  const double rotated = fraction * static_cast<double>(head_dim);
  const double pairs = std::nearbyint(rotated / 2);
  require(pairs >= 1 && std::abs(rotated - 2 * pairs) < 1e-9, model.source, ": key '", key, "' is ",
          shown(Json(fraction)), "; allowed is above 0 to 1, an even share of head_dim, ",
          head_dim);
  return fraction;
}

/// What replaces 1 / sqrt(head_dim), if anything does.
std::optional<double> attention_scale(const JsonView& model, int64_t head_dim) {
  const auto scale = find(model, "attention_multiplier");
  const auto width = find(model, "query_pre_attn_scalar");
  require(!scale || !width, scale ? place(*scale) : "", " is ", scale ? shown(*scale->value) : "",
          " beside 'query_pre_attn_scalar'; allowed is one of them");
  if (scale) {
    return as_double(*scale, 1e-30, 1e30);
  }
  if (width) {
    const double value = as_double(*width, 1e-30, 1e30);
    return value == static_cast<double>(head_dim) ? std::nullopt
                                                  : std::optional<double>(1 / std::sqrt(value));
  }
  return std::nullopt;
}

/// Keys of the window of sliding layers; nothing where there is none.
std::optional<int64_t> window_of(const JsonView& model, const std::string& model_type) {
  if (find(model, "sliding_window")) {
    return get_int(model, "sliding_window", 1, largest_count);
  }
  const int64_t fallback = defaults_of(model_type).window;
  return model.value->contains("sliding_window") || fallback == 0
             ? std::nullopt
             : std::optional<int64_t>(fallback);
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
      require(kinds[i] == LayerKind::full || get_bool_or(model, "use_sliding_window", true),
              place(list[i]),
              " is \"sliding_attention\" where use_sliding_window is false; allowed "
              "is \"full_attention\"");
    }
    return kinds;
  }
  const bool qwen = is_qwen(model_type);
  const bool windowed = get_bool_or(model, "use_sliding_window", !qwen);
  if (windowed && window_of(model, model_type)) {
    // Qwen files say how many leading layers are full, by default 28; elsewhere all layers slide.
    const int64_t full = get_int_or(model, "max_window_layers", 0, largest_count, qwen ? 28 : 0);
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
  reject_what_is_not_represented(root, model, model_type);
  const Defaults defaults = defaults_of(model_type);

  Architecture out;
  out.name = root.source;
  out.family = Family::dense_gqa;
  out.hidden = get_int(model, "hidden_size", 1, largest_count);
  out.mlp = get_int(model, "intermediate_size", 1, largest_count);
  out.vocab = get_int(model, "vocab_size", 1, largest_count);
  const bool short_name = !find(model, "rms_norm_eps") && find(model, "norm_eps");
  out.rms_eps = get_double(model, short_name ? "norm_eps" : "rms_norm_eps", 1e-30, 1);
  // The flag of a nested model may be at either level.
  out.tied =
      get_bool_or(model, "tie_word_embeddings", get_bool_or(root, "tie_word_embeddings", false));
  out.qk_norm = model_type == "qwen3";
  // qwen2 has biases on Q, K and V without saying so; where the key says so, the output has one
  // too.
  const bool implied_bias = model_type == "qwen2";
  const bool bias = get_bool_or(model, "attention_bias", implied_bias);
  require(bias || !implied_bias, root.source,
          ": key 'attention_bias' is false; allowed is true, as "
          "the projections of qwen2 have biases");
  out.qkv_bias = bias;
  out.output_bias = bias && !implied_bias;
  out.rope_type = rope_type_of_all(model);
  if (const auto cap = find(model, "final_logit_softcapping")) {
    out.final_softcap = as_double(*cap, 1e-30, 1e30);
  }
  const JsonView& mask = find(model, "mask_token_id") ? model : root;
  if (find(mask, "mask_token_id")) {
    out.mask_token = get_int(mask, "mask_token_id", 0, out.vocab - 1);
  }
  out.block_size = get_int_or(model, "block_size", 1, largest_count, out.block_size);

  LayerShape layer;
  layer.q_heads = get_int(model, "num_attention_heads", 1, most_heads);
  // Null means as many as query heads; a missing key means the family's number.
  const bool null_kv = model.value->contains("num_key_value_heads") || defaults.kv_heads == 0;
  layer.kv_heads = get_int_or(model, "num_key_value_heads", 1, layer.q_heads,
                              null_kv ? layer.q_heads : defaults.kv_heads);
  require(layer.q_heads % layer.kv_heads == 0, root.source, ": key 'num_key_value_heads' is ",
          layer.kv_heads, "; allowed is a divisor of num_attention_heads, ", layer.q_heads);
  if (find(model, "head_dim")) {
    layer.head_dim = get_int(model, "head_dim", 1, most_heads);
  } else if (defaults.head_dim > 0 && !model.value->contains("head_dim")) {
    layer.head_dim = defaults.head_dim;
  } else {
    require(out.hidden % layer.q_heads == 0, root.source,
            ": key 'head_dim' is missing and hidden_size, ", out.hidden,
            ", is no multiple of num_attention_heads, ", layer.q_heads);
    layer.head_dim = out.hidden / layer.q_heads;
  }
  require(layer.head_dim % 2 == 0, root.source, ": key 'head_dim' is ", layer.head_dim,
          "; allowed is an even number, as rotary positions rotate pairs");

  out.attention_scale = attention_scale(model, layer.head_dim);

  const int64_t layers = get_int(model, "num_hidden_layers", 1, most_layers);
  for (const LayerKind kind : layer_kinds(model, model_type, layers)) {
    layer.kind = kind;
    const bool sliding = kind == LayerKind::sliding;
    const std::string type = sliding ? "sliding_attention" : "full_attention";
    const std::optional<int64_t> window = window_of(model, model_type);
    require(!sliding || window, root.source,
            ": key 'sliding_window' is missing, which sliding "
            "layers need");
    layer.window = sliding ? *window : 0;
    layer.rope_theta = rope_number(model, type, "rope_theta", 1, 1e300, defaults.theta);
    layer.rope_fraction = rope_fraction(model, type, layer.head_dim);
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
