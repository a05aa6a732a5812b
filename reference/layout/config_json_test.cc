#include "reference/layout/config_json.h"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "reference/base/error.h"
#include "reference/base/test_files.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(config_json)

namespace {

using Json = nlohmann::json;

Json llama() {
  return Json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
    "hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2,
    "intermediate_size": 256, "vocab_size": 500, "tie_word_embeddings": true,
    "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "attention_bias": false, "mlp_bias": false})");
}

/// A directory with a config.json.
struct Checkpoint {
  testing::Directory directory;
  explicit Checkpoint(const std::string& text) { std::ofstream(file()) << text; }
  std::string file() const { return (directory.path / "config.json").string(); }
};

Architecture read(const Json& config) {
  return read_config_json(Checkpoint(config.dump()).file());
}

/// The message of the InputError that `config` causes, which must be one line that names the file.
std::string message(const Json& config) {
  const Checkpoint checkpoint(config.dump());
  try {
    read_config_json(checkpoint.file());
  } catch (const InputError& error) {
    const std::string text = error.what();
    BOOST_TEST(text.find('\n') == std::string::npos);
    BOOST_TEST(text.rfind(checkpoint.file() + ": ", 0) == 0u, text);
    return text;
  }
  BOOST_ERROR("no error for " << config.dump());
  return {};
}

void expect(const Json& config, std::initializer_list<const char*> parts) {
  const std::string text = message(config);
  for (const char* part : parts) {
    BOOST_TEST(text.find(part) != std::string::npos, "'" << part << "' is not in: " << text);
  }
}

BOOST_AUTO_TEST_CASE(llama_style) {
  const Architecture a = read(llama());
  BOOST_TEST((a.family == Family::dense_gqa));
  BOOST_TEST(a.hidden == 96);
  BOOST_TEST(a.mlp == 256);
  BOOST_TEST(a.vocab == 500);
  BOOST_TEST(a.tied);
  BOOST_TEST(!a.qk_norm);
  BOOST_TEST(!a.qkv_bias);
  BOOST_TEST(a.rms_eps == 1e-5);
  BOOST_TEST(a.block_size == 256);
  BOOST_TEST(a.rope_type == "default");
  BOOST_TEST(a.layer_count() == 3);
  LayerShape layer;
  layer.q_heads = 6;
  layer.kv_heads = 2;
  layer.head_dim = 16;  // 96 / 6
  layer.rope_theta = 500000;
  for (const LayerShape& l : a.layers) {
    BOOST_TEST((l == layer));
  }
}

BOOST_AUTO_TEST_CASE(qwen_style) {
  Json c = llama();
  c["model_type"] = "qwen3";
  c["head_dim"] = 32;
  c["sliding_window"] = 64;
  c["max_window_layers"] = 1;
  c["tie_word_embeddings"] = false;
  BOOST_TEST(read(c).qk_norm);
  BOOST_TEST(!read(c).tied);
  BOOST_TEST(read(c).layers[0].head_dim == 32);
  // Windows are off unless asked for; then the first max_window_layers layers are full.
  BOOST_TEST(read(c).layers[2].window == 0);
  c["use_sliding_window"] = true;
  BOOST_TEST(read(c).layers[0].window == 0);
  BOOST_TEST(read(c).layers[1].window == 64);
  BOOST_TEST(read(c).layers[2].window == 64);
  c["max_window_layers"] = 7;
  BOOST_TEST(read(c).layers[2].window == 0);
  c["sliding_window"] = nullptr;
  c["max_window_layers"] = 0;
  BOOST_TEST(read(c).layers[2].window == 0);
  c["sliding_window"] = 64;
  c.erase("max_window_layers");
  c["num_hidden_layers"] = 30;  // without the key, 28 are full
  BOOST_TEST(read(c).layers[27].window == 0);
  BOOST_TEST(read(c).layers[28].window == 64);
  c.erase("sliding_window");
  BOOST_TEST(read(c).layers[28].window == 4096);
  c["use_sliding_window"] = false;
  BOOST_TEST(read(c).layers[2].window == 0);
  c["model_type"] = "qwen2";
  c.erase("attention_bias");
  BOOST_TEST(!read(c).qk_norm);
  BOOST_TEST(read(c).qkv_bias);
}

BOOST_AUTO_TEST_CASE(mistral_style) {
  Json c = llama();
  c["model_type"] = "mistral";
  c["sliding_window"] = 4096;
  for (const LayerShape& l : read(c).layers) {
    BOOST_TEST(l.window == 4096);
  }
  c["sliding_window"] = nullptr;
  BOOST_TEST(read(c).layers[0].window == 0);
}

BOOST_AUTO_TEST_CASE(nested_text_model_with_layer_types) {
  Json text = llama();
  text["model_type"] = "ministral3";
  text.erase("rope_theta");
  text.erase("tie_word_embeddings");
  text["rope_parameters"] = {{"rope_theta", 1e6}, {"rope_type", "yarn"}, {"factor", 16}};
  text["sliding_window"] = 32;
  text["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  const Json c = {{"model_type", "mistral3"}, {"tie_word_embeddings", true}, {"text_config", text}};
  const Architecture a = read(c);
  BOOST_TEST(a.tied);
  BOOST_TEST(a.rope_type == "yarn");
  BOOST_TEST((a.layers[0].kind == LayerKind::sliding));
  BOOST_TEST((a.layers[1].kind == LayerKind::full));
  BOOST_TEST(a.layers[2].window == 32);
  BOOST_TEST(a.layers[1].rope_theta == 1e6);
  // Parameters for each layer type.
  Json split = text;
  split["rope_parameters"] = {{"full_attention", {{"rope_theta", 1e6}}},
                              {"sliding_attention", {{"rope_theta", 1e4}}}};
  BOOST_TEST(read(split).layers[0].rope_theta == 1e4);
  BOOST_TEST(read(split).layers[1].rope_theta == 1e6);
}

BOOST_AUTO_TEST_CASE(block_diffusion_style) {
  Json c = llama();
  c["model_type"] = "nemotron_labs_diffusion";
  c["mask_token_id"] = 100;
  BOOST_TEST(read(c).mask_token.value() == 100);
  c["mask_token_id"] = 500;
  expect(c, {"'mask_token_id' is 500", "from 0 to 499"});
}

BOOST_AUTO_TEST_CASE(other_families_are_named_and_so_are_the_supported_ones) {
  for (const char* type : {"mixtral", "gemma3", "qwen3_5", "nemotron_h", "gpt2", "", "qwen3_moe"}) {
    Json c = llama();
    c["model_type"] = type;
    expect(c, {"model_type", "llama, ministral"});
  }
  Json c = llama();
  c.erase("model_type");
  expect(c, {"'model_type' is missing", "supported are llama"});
  c = llama();
  c["num_experts"] = 8;
  expect(c, {"'num_experts'", "dense"});
  c = llama();
  c["hidden_act"] = "gelu";
  expect(c, {"'hidden_act' is \"gelu\"", "\"silu\""});
  c = llama();
  c["mlp_bias"] = true;
  expect(c, {"'mlp_bias' is true"});
  c = llama();
  c["layer_types"] = {"full_attention", "linear_attention", "full_attention"};
  expect(c, {"'layer_types[1]' is \"linear_attention\"", "sliding_attention"});
}

BOOST_AUTO_TEST_CASE(missing_values_are_named) {
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads",
                          "intermediate_size", "vocab_size", "rms_norm_eps"}) {
    Json c = llama();
    c.erase(key);
    expect(c, {key, "is missing"});
    c[key] = nullptr;
    expect(c, {key, "is missing"});
  }
  Json c = llama();
  c.erase("rms_norm_eps");
  expect(c, {"'rms_norm_eps' is missing"});
  c = llama();
  c["model_type"] = "ministral3";
  c.erase("rope_theta");
  expect(c, {"'rope_theta' is missing"});
}

/// llama() with some values replaced.
Json with(const Json& changes, const char* model_type = "llama") {
  Json c = llama();
  c["model_type"] = model_type;
  c.update(changes);
  return c;
}

BOOST_AUTO_TEST_CASE(missing_keys_mean_what_the_family_says) {
  Json c = llama();
  for (const char* key : {"num_key_value_heads", "rope_theta", "tie_word_embeddings", "hidden_act",
                          "attention_bias", "mlp_bias"}) {
    c.erase(key);
  }
  const Architecture a = read(c);
  BOOST_TEST(a.layers[0].kv_heads == 6);
  BOOST_TEST(a.layers[0].rope_theta == 1e4);
  BOOST_TEST(!a.tied);
  c["model_type"] = "qwen3";
  expect(c, {"'num_key_value_heads' is 32", "divisor of num_attention_heads, 6"});
  c["num_key_value_heads"] = nullptr;
  BOOST_TEST(read(c).layers[0].kv_heads == 6);
  BOOST_TEST(read(c).layers[0].head_dim == 128);
  c["model_type"] = "mistral";
  BOOST_TEST(read(c).layers[0].head_dim == 16);
  BOOST_TEST(read(c).layers[0].window == 4096);
  c["num_attention_heads"] = 16;
  c.erase("num_key_value_heads");
  BOOST_TEST(read(c).layers[0].kv_heads == 8);
}

BOOST_AUTO_TEST_CASE(partial_rotation) {
  Json c = with({{"partial_rotary_factor", 0.5}});
  BOOST_TEST(read(c).layers[2].rope_fraction == 0.5);
  BOOST_TEST((read(c).layers[2].rope_layout == RopeLayout::prefix));
  // Beside a theta, without one, and for one type of layer.
  for (const Json& rope : {Json{{"rope_theta", 5e5}, {"partial_rotary_factor", 0.25}},
                           Json{{"partial_rotary_factor", 0.25}},
                           Json{{"full_attention", {{"partial_rotary_factor", 0.25}}}}}) {
    BOOST_TEST(read(with({{"rope_parameters", rope}})).layers[1].rope_fraction == 0.25);
  }
  c["rope_parameters"] = {{"partial_rotary_factor", 0.25}};
  expect(c, {"'partial_rotary_factor' is 0.5", "0.25"});
  for (const double bad : {0.0, -0.5, 1.5, 0.3, 0.0625}) {  // head_dim is 16
    expect(with({{"partial_rotary_factor", bad}}), {"'partial_rotary_factor' is", "allowed is"});
  }
}

BOOST_AUTO_TEST_CASE(rotary_positions_of_each_layer_type) {
  Json c = with({{"layer_types", {"sliding_attention", "full_attention", "full_attention"}},
                 {"sliding_window", 8}});
  c["rope_parameters"] = {{"full_attention", {{"rope_theta", 1e6}, {"rope_type", "default"}}},
                          {"sliding_attention", {{"rope_theta", 1e4}, {"rope_type", "default"}}}};
  BOOST_TEST(read(c).layers[0].rope_theta == 1e4);
  BOOST_TEST(read(c).layers[1].rope_theta == 1e6);
  BOOST_TEST(read(c).rope_type == "default");
  for (const char* type : {"full_attention", "sliding_attention"}) {
    for (const char* key : {"rope_type", "type"}) {
      Json scaled = c;
      scaled["rope_parameters"][type][key] = "linear";
      scaled["rope_parameters"][type]["factor"] = 8;
      BOOST_TEST(read(scaled).rope_type == "linear");
    }
  }
  c["rope_parameters"]["sliding_attention"]["factor"] = 8;
  expect(c, {"'rope_parameters.sliding_attention.factor' is 8", "rope_type"});
  c["rope_parameters"] = {{"linear_attention", {{"rope_theta", 1e6}}}};
  expect(c, {"'rope_parameters.linear_attention'"});
}

BOOST_AUTO_TEST_CASE(scaled_positions_are_never_taken_as_unscaled) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto scaled = [&](const Json& rope) { return with({{key, rope}}); };
    BOOST_TEST(read(scaled({{"type", "linear"}, {"factor", 2}})).rope_type == "linear");
    BOOST_TEST(read(scaled({{"rope_type", "default"}, {"type", "yarn"}})).rope_type == "yarn");
    BOOST_TEST(read(scaled({{"factor", 1.0}})).rope_type == "default");
    BOOST_TEST(read(scaled(nullptr)).rope_type == "default");
    expect(scaled({{"factor", 8.0}}), {"factor' is 8", "rope_type"});
    expect(scaled({{"rope_type", "default"}, {"factor", 8.0}}), {"factor' is 8", "rope_type"});
    expect(scaled({{"low_freq_factor", 2}}), {"low_freq_factor' is 2"});
    expect(scaled({{"llama_4_scaling_beta", 0.1}}), {"llama_4_scaling_beta' is 0.1"});
    expect(scaled({{"type", 3}}), {"type' is 3", "a string"});
    expect(scaled("linear"), {key, "is \"linear\"", "an object"});
    expect(scaled({{"rope_theta", 7.5}}), {"'rope_theta' is 500000", "7.5"});
  }
}

BOOST_AUTO_TEST_CASE(caps_scales_and_biases_are_represented) {
  BOOST_TEST(read(with({{"final_logit_softcapping", 30.0}})).final_softcap.value() == 30);
  BOOST_TEST(!read(with({{"final_logit_softcapping", nullptr}})).final_softcap.has_value());
  expect(with({{"final_logit_softcapping", 0}}), {"'final_logit_softcapping' is 0"});
  // 1 / sqrt(query_pre_attn_scalar) in place of 1 / sqrt(head_dim)
  BOOST_TEST(read(with({{"query_pre_attn_scalar", 64}})).attention_scale.value() == 0.125);
  BOOST_TEST(!read(with({{"query_pre_attn_scalar", 16}})).attention_scale.has_value());
  BOOST_TEST(read(with({{"attention_multiplier", 0.3}})).attention_scale.value() == 0.3);
  expect(with({{"attention_multiplier", 0.3}, {"query_pre_attn_scalar", 64}}),
         {"'attention_multiplier' is 0.3", "one of them"});
  BOOST_TEST(read(with({{"block_size", 32}})).block_size == 32);

  const Architecture a = read(with({{"attention_bias", true}}));
  BOOST_TEST((a.qkv_bias && a.output_bias));
  const Architecture b = read(with({{"attention_bias", nullptr}}, "qwen2"));
  BOOST_TEST((b.qkv_bias && !b.output_bias));
  expect(with({{"attention_bias", false}}, "qwen2"), {"'attention_bias' is false", "true"});
}

BOOST_AUTO_TEST_CASE(what_is_not_represented_is_an_error_unless_neutral) {
  const std::vector<std::pair<const char*, std::vector<Json>>> bad = {
      {"attn_logit_softcapping", {50.0, "50"}},
      {"logits_scaling", {16.0, 0, "1"}},
      {"embedding_multiplier", {12.0, true}},
      {"residual_multiplier", {0.22}},
      {"clip_qkv", {8.0}},
      {"attention_sink", {true, 4}},
      {"num_experts", {1, 8, "8", -1}},
      {"num_local_experts", {8}},
      {"use_qk_norm", {true}},
      {"mlp_bias", {true, "no"}},
      {"hidden_act", {"gelu", "relu2", 3}},
      {"attention_dropout", {0.1}},
      {"rotary_pct", {0.25}},
      {"no_rope_layer_interval", {4}},
      {"dflash_config", {{{"causal", true}}}},
      {"a_new_switch", {true, 2, "on", {1}}}};
  for (const auto& [key, values] : bad) {
    for (const Json& value : values) {
      const std::string text = value.is_structured() ? std::string("is ") : "is " + value.dump();
      expect(with({{key, value}}), {key, text.c_str(), "allowed is"});
    }
    BOOST_CHECK_NO_THROW(read(with({{key, nullptr}})));
  }
  for (const Json& neutral :
       {Json{{"logits_scaling", 1.0}}, Json{{"embedding_multiplier", 1}}, Json{{"num_experts", 0}},
        Json{{"attention_sink", false}}, Json{{"use_qk_norm", false}}, Json{{"mlp_bias", false}},
        Json{{"attention_dropout", 0.0}}, Json{{"hidden_act", "swish"}},
        Json{{"a_new_switch", false}}}) {
    BOOST_CHECK_NO_THROW(read(with(neutral)));
  }
  BOOST_CHECK_NO_THROW(read(with({{"use_qk_norm", true}}, "qwen3")));
  expect(with({{"use_qk_norm", false}}, "qwen3"), {"'use_qk_norm' is false", "true"});
  expect(with({{"architectures", {"DFlash2DraftModel"}}}, "qwen3"), {"DFlash2DraftModel"});
  expect(with({{"use_sliding_window", false},
               {"layer_types", {"sliding_attention", "full_attention", "full_attention"}},
               {"sliding_window", 8}}),
         {"'layer_types[0]'", "use_sliding_window is false"});
  // Beside a nested model, too.
  expect({{"model_type", "mistral3"}, {"text_config", llama()}, {"num_experts", 8}},
         {"'num_experts' is 8"});
}

BOOST_AUTO_TEST_CASE(keys_of_files_tokens_and_training_are_unrelated) {
  BOOST_CHECK_NO_THROW(read(with({{"torch_dtype", "bfloat16"},
                                  {"bos_token_id", 1},
                                  {"eos_token_id", {2, 3}},
                                  {"max_position_embeddings", 4096},
                                  {"initializer_range", 0.02},
                                  {"use_cache", true},
                                  {"transformers_version", "4.57.0"},
                                  {"pretraining_tp", 1},
                                  {"_name_or_path", "x"},
                                  {"unsloth_fixed", true},
                                  {"quantization_config", {{"bits", 8}}},
                                  {"auto_map", {{"AutoModel", "m.M"}}},
                                  {"dlm_paradigm", "bidirectional"}})));
}

BOOST_AUTO_TEST_CASE(absurd_values_are_named_with_what_is_allowed) {
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads",
                          "num_key_value_heads", "intermediate_size", "vocab_size", "head_dim"}) {
    for (const Json& bad : {Json(0), Json(-4), Json(int64_t{1} << 33), Json(1.5), Json("8"),
                            Json(UINT64_MAX), Json(true), Json(Json::array({1}))}) {
      Json c = llama();
      c[key] = bad;
      expect(c, {key, "allowed is an integer from 1 to"});
    }
  }
  Json c = llama();
  c["num_key_value_heads"] = 4;
  expect(c, {"'num_key_value_heads' is 4", "divisor of num_attention_heads, 6"});
  c["num_key_value_heads"] = 12;
  expect(c, {"'num_key_value_heads' is 12", "from 1 to 6"});
  c = llama();
  c["head_dim"] = 15;
  expect(c, {"'head_dim' is 15", "even"});
  c = llama();
  c["hidden_size"] = 97;
  expect(c, {"'head_dim' is missing", "97"});
  c = llama();
  c["rope_theta"] = -1;
  expect(c, {"'rope_theta' is -1"});
  c = llama();
  c["rms_norm_eps"] = 0;
  expect(c, {"'rms_norm_eps' is 0"});
  c = llama();
  c["tie_word_embeddings"] = "yes";
  expect(c, {"'tie_word_embeddings' is \"yes\"", "true or false"});
  c = llama();
  c["layer_types"] = {"full_attention"};
  expect(c, {"'layer_types' has 1 entries", "3"});
  c["layer_types"] = {"sliding_attention", "full_attention", "full_attention"};
  expect(c, {"'sliding_window' is missing"});
  c["sliding_window"] = 0;
  expect(c, {"'sliding_window' is 0", "from 1"});
  c = {{"model_type", "mistral3"}, {"text_config", 3}};
  expect(c, {"'text_config' is 3", "object"});
  c = {{"model_type", "mistral3"}, {"text_config", llama()}};
  c["text_config"]["hidden_size"] = -1;
  expect(c, {"'text_config.hidden_size' is -1"});
}

BOOST_AUTO_TEST_CASE(names_and_paths) {
  const Checkpoint checkpoint(llama().dump());
  BOOST_TEST(find_architecture("nemotron_8b").layer_count() == 34);
  BOOST_TEST(find_architecture(checkpoint.file()).layer_count() == 3);
  BOOST_TEST(find_architecture(checkpoint.directory.path.string()).layer_count() == 3);
  BOOST_CHECK_THROW(find_architecture("nemotron_9b"), InputError);
  BOOST_CHECK_THROW(find_architecture("no/such/file"), FileError);
  BOOST_CHECK_THROW(find_architecture("missing.json"), FileError);
  BOOST_CHECK_THROW(find_architecture(Checkpoint("{\"model_type\": ").file()), FileError);
  BOOST_CHECK_THROW(read_config_json(Checkpoint("[1]").file()), InputError);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
