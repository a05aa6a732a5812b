#include "reference/layout/config_json.h"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "reference/base/error.h"

namespace bdlm {
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
  std::filesystem::path directory;
  explicit Checkpoint(const std::string& text) {
    std::string name = (std::filesystem::temp_directory_path() / "bdlm_config_XXXXXX").string();
    BOOST_REQUIRE(::mkdtemp(name.data()) != nullptr);
    directory = name;
    std::ofstream(file()) << text;
  }
  ~Checkpoint() { std::filesystem::remove_all(directory); }
  std::string file() const { return (directory / "config.json").string(); }
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

BOOST_AUTO_TEST_SUITE(config_json)

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
  expect(c, {"'max_window_layers' is missing"});
  c["use_sliding_window"] = false;
  BOOST_TEST(read(c).layers[2].window == 0);
  c["model_type"] = "qwen2";
  BOOST_TEST(!read(c).qk_norm);
  c.erase("attention_bias");
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
                          "num_key_value_heads", "intermediate_size", "vocab_size", "rope_theta"}) {
    Json c = llama();
    c.erase(key);
    expect(c, {key, "is missing"});
    c[key] = nullptr;
    expect(c, {key, "is missing"});
  }
  Json c = llama();
  c.erase("rms_norm_eps");
  expect(c, {"norm_eps' is missing"});
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
  BOOST_TEST(find_architecture(checkpoint.directory.string()).layer_count() == 3);
  BOOST_CHECK_THROW(find_architecture("nemotron_9b"), InputError);
  BOOST_CHECK_THROW(find_architecture("no/such/file"), FileError);
  BOOST_CHECK_THROW(find_architecture("missing.json"), FileError);
  BOOST_CHECK_THROW(find_architecture(Checkpoint("{\"model_type\": ").file()), FileError);
  BOOST_CHECK_THROW(read_config_json(Checkpoint("[1]").file()), InputError);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace bdlm
