#include "reference/layout/architecture.h"

#include <nlohmann/json.hpp>

#include "reference/base/error.h"
#include "reference/base/json_file.h"
#include "reference/base/text.h"

namespace bdlm {

extern const char* const models_json_text;  // generated from models.json

namespace {

const Json& table() {
  static const Json document = parse_json(models_json_text, "models.json");
  return document;
}

Family parse_family(const JsonView& model) {
  const std::string text = get_string(model, "family");
  for (const Family family :
       {Family::dense_gqa, Family::moe_sliding, Family::hybrid_delta, Family::drafter}) {
    if (text == name(family)) {
      return family;
    }
  }
  throw InputError(join(place(model), " has the unknown family '", printable(text), "'"));
}

LayerKind parse_kind(const JsonView& layer) {
  const std::string text = get_string(layer, "kind");
  for (const LayerKind kind : {LayerKind::full, LayerKind::sliding, LayerKind::delta}) {
    if (text == name(kind)) {
      return kind;
    }
  }
  throw InputError(join(place(layer), " has the unknown kind '", printable(text), "'"));
}

/// What an entry of the pattern says, else what the model says of all its attention layers.
LayerShape read_layer(const JsonView& attention, const JsonView& entry) {
  reject_unknown_keys(entry, {"kind", "q_heads", "kv_heads", "head_dim", "window", "value_from_key",
                              "rope_theta", "rope_fraction", "rope_layout"});
  LayerShape layer;
  layer.kind = parse_kind(entry);
  if (layer.kind == LayerKind::delta) {
    return layer;
  }
  const auto source = [&](const char* key) { return find(entry, key) ? entry : attention; };
  const auto count = [&](const char* key) { return get_int(source(key), key, 1, largest_count); };
  layer.q_heads = count("q_heads");
  layer.kv_heads = count("kv_heads");
  layer.head_dim = count("head_dim");
  layer.window = layer.kind == LayerKind::sliding ? count("window") : 0;
  layer.value_from_key = get_bool_or(entry, "value_from_key", false);
  layer.rope_theta = get_double(source("rope_theta"), "rope_theta", 1, 1e300);
  layer.rope_fraction = get_double_or(source("rope_fraction"), "rope_fraction", 0, 1, 1);
  layer.rope_layout = get_string_or(entry, "rope_layout", "prefix") == "proportional"
                          ? RopeLayout::proportional
                          : RopeLayout::prefix;
  return layer;
}

DraftShape read_draft(const JsonView& at) {
  DraftShape draft;
  for (const JsonView& tap : get_array(at, "taps")) {
    draft.taps.push_back(as_int(tap, 0, largest_count));
  }
  const auto count = [&](const char* key) { return get_int(at, key, 1, largest_count); };
  draft.feature_width = count("feature_width");
  draft.target_layers = count("target_layers");
  draft.conv_group = count("conv_group");
  draft.conv_kernel = count("conv_kernel");
  draft.selector_rank = count("selector_rank");
  draft.selector_top_k = count("selector_top_k");
  draft.max_anchors = count("max_anchors");
  draft.causal_local = get_bool(at, "causal_local");
  draft.output_mult = get_double(at, "output_mult", 0, 1e300);
  return draft;
}

Architecture read_model(const JsonView& model) {
  reject_unknown_keys(model, {"family", "layers", "hidden", "mlp", "moe", "delta", "draft",
                              "attention", "attention_scale", "vocab", "tied", "qk_norm",
                              "final_softcap", "rms_eps", "mask_token", "block_size", "inferred"});
  Architecture out;
  out.name = model.path;
  out.family = parse_family(model);
  const JsonView attention = get_object(model, "attention");
  const std::vector<JsonView> pattern = get_array(model, "layers.pattern");
  require(!pattern.empty(), place(model), " has an empty layer pattern");
  const int64_t layers = get_int(model, "layers.count", 1, 65536);
  for (int64_t i = 0; i < layers; ++i) {
    out.layers.push_back(read_layer(attention, pattern[i % pattern.size()]));
  }
  const auto count = [&](const char* key) { return get_int(model, key, 1, largest_count); };
  out.hidden = count("hidden");
  out.mlp = count("mlp");
  out.vocab = count("vocab");
  out.tied = get_bool(model, "tied");
  out.qk_norm = get_bool(model, "qk_norm");
  out.rms_eps = get_double(model, "rms_eps", 0, 1);
  if (find(model, "attention_scale")) {
    out.attention_scale = get_double(model, "attention_scale", 0, 1e300);
  }
  if (find(model, "final_softcap")) {
    out.final_softcap = get_double(model, "final_softcap", 0, 1e300);
  }
  if (find(model, "mask_token")) {
    out.mask_token = get_int(model, "mask_token", 0, largest_count);
  }
  out.block_size = get_int_or(model, "block_size", 1, largest_count, 256);
  if (find(model, "delta")) {
    out.delta = DeltaShape{count("delta.key_heads"), count("delta.value_heads"),
                           count("delta.head_dim"), count("delta.conv")};
  }
  if (find(model, "moe")) {
    out.moe = MoeShape{count("moe.experts"), count("moe.top_k"), count("moe.expert_mlp")};
  }
  if (find(model, "draft")) {
    out.draft = read_draft(get_object(model, "draft"));
  }
  return out;
}

}  // namespace

const char* name(Family family) {
  switch (family) {
    case Family::dense_gqa:
      return "dense_gqa";
    case Family::moe_sliding:
      return "moe_sliding";
    case Family::hybrid_delta:
      return "hybrid_delta";
    case Family::drafter:
      return "drafter";
  }
  throw LogicError("no such family");
}

const char* name(LayerKind kind) {
  switch (kind) {
    case LayerKind::full:
      return "full";
    case LayerKind::sliding:
      return "sliding";
    case LayerKind::delta:
      return "delta";
  }
  throw LogicError("no such layer kind");
}

CleanRule Architecture::clean_rule() const {
  return family == Family::moe_sliding ? CleanRule::token_causal : CleanRule::block_causal;
}

LayerRule Architecture::rule(int64_t index) const {
  require(0 <= index && index < layer_count(), "layer is ", index, "; allowed is 0 to ",
          layer_count() - 1);
  const LayerShape& layer = layers[index];
  require(layer.kind != LayerKind::delta, "layer ", index,
          " is a delta layer, which has no attention mask");
  return {clean_rule(), layer.window};
}

std::vector<AttentionRole> Architecture::roles() const {
  switch (family) {
    case Family::dense_gqa:
    case Family::hybrid_delta:
      return {{"both", true, true, true}};
    case Family::moe_sliding:
      return {{"encoder", true, false, false}, {"decoder", false, true, true}};
    case Family::drafter:
      return {{"draft", false, true, true}};
  }
  throw LogicError("no such family");
}

std::vector<std::string> known_models() {
  std::vector<std::string> names;
  for (auto it = table().begin(); it != table().end(); ++it) {
    names.push_back(it.key());
  }
  return names;
}

bool is_known_model(std::string_view name) {
  return table().contains(std::string(name));
}

Architecture known_architecture(std::string_view name) {
  require(is_known_model(name), "unknown model '", printable(name), "'; known are ",
          listed(known_models()));
  const JsonView models = view(table(), "models.json");
  const JsonView model = get_object(models, name);
  const bool alias = find(model, "same_as").has_value();
  Architecture out = alias ? known_architecture(get_string(model, "same_as")) : read_model(model);
  out.name = name;
  out.inferred.clear();
  for (const JsonView& key : get_array(model, "inferred")) {
    out.inferred.push_back(as_string(key));
  }
  check(out);
  return out;
}

void check(const Architecture& a) {
  const auto positive = [&](const char* what, int64_t value) {
    require(1 <= value && value <= largest_count, a.name, ": ", what, " is ", value,
            "; allowed is 1 to ", largest_count);
  };
  positive("hidden", a.hidden);
  positive("mlp", a.mlp);
  positive("vocab", a.vocab);
  positive("block_size", a.block_size);
  require(!a.layers.empty(), a.name, ": there are no layers; at least 1 is needed");
  require(a.rms_eps > 0, a.name, ": rms_eps is ", a.rms_eps, "; it must be above 0");
  require(!a.mask_token || (0 <= *a.mask_token && *a.mask_token < a.vocab), a.name,
          ": mask_token is ", a.mask_token.value_or(0), "; allowed is 0 to ", a.vocab - 1);
  for (const LayerShape& layer : a.layers) {
    if (layer.kind == LayerKind::delta) {
      require(a.delta.has_value(), a.name, ": a delta layer without delta dimensions");
      continue;
    }
    positive("q_heads", layer.q_heads);
    positive("kv_heads", layer.kv_heads);
    positive("head_dim", layer.head_dim);
    require(layer.q_heads % layer.kv_heads == 0, a.name, ": q_heads is ", layer.q_heads,
            "; it must be a multiple of kv_heads, ", layer.kv_heads);
    require(0 < layer.rope_fraction && layer.rope_fraction <= 1, a.name, ": rope_fraction is ",
            layer.rope_fraction, "; allowed is above 0 to 1");
    require(layer.rope_theta == 0 || layer.head_dim % 2 == 0, a.name, ": head_dim is ",
            layer.head_dim, "; it must be even, as rotary positions rotate pairs");
    require((layer.kind == LayerKind::sliding) == (layer.window >= 1), a.name, ": a ",
            name(layer.kind), " layer has a window of ", layer.window,
            "; sliding layers need at least 1, others 0");
  }
}

}  // namespace bdlm
