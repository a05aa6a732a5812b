#include "reference/layout/config_keys.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

/// Keys of functions that are not computed, with the number that leaves the function as it is.
struct Neutral {
  double value;
  const char* what;
  std::vector<std::string> keys;
};

const std::vector<Neutral>& neutral_keys() {
  static const std::vector<Neutral> groups = {
      {0,
       "supported are dense models with grouped-query attention, without experts, linear or latent "
       "attention",
       {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts",
        "num_experts_per_tok", "n_shared_experts", "linear_num_value_heads", "q_lora_rank",
        "kv_lora_rank"}},
      {1,
       "no such factor is applied",
       {"embedding_multiplier", "embedding_scale", "input_embedding_scale", "scale_emb",
        "residual_multiplier", "logits_scaling", "logit_scale", "lm_head_multiplier",
        "output_multiplier", "key_multiplier", "rotary_pct", "rope_pct", "rotary_percent"}},
      {0,
       "there is no dropout",
       {"attention_dropout", "hidden_dropout", "hidden_dropout_prob", "resid_pdrop", "embd_pdrop",
        "attn_pdrop", "residual_dropout", "attention_probs_dropout_prob"}}};
  return groups;
}

void reject_not_neutral(const JsonView& model) {
  for (const Neutral& group : neutral_keys()) {
    for (const std::string& key : group.keys) {
      const auto at = find(model, key);
      require(!at || is_off(*at->value) ||
                  (at->value->is_number() && at->value->get<double>() == group.value),
              at ? place(*at) : "", " is ", at ? shown(*at->value) : "", "; allowed is ",
              group.value, " or null: ", group.what);
    }
  }
  for (const char* key : {"attn_logit_softcapping", "clip_qkv", "attention_sink", "attention_sinks",
                          "attention_sink_bias", "mlp_bias", "no_rope_layers", "dflash_config"}) {
    const auto at = find(model, key);
    require(!at || is_off(*at->value), at ? place(*at) : "", " is ", at ? shown(*at->value) : "",
            "; allowed is null or false: it is not computed");
  }
}

/// Keys that are read below, and keys about files, tokens, generation, storage and training.
bool is_understood(const std::string& key) {
  static const std::vector<std::string> read = {"model_type",
                                                "text_config",
                                                "architectures",
                                                "hidden_size",
                                                "intermediate_size",
                                                "vocab_size",
                                                "num_hidden_layers",
                                                "num_attention_heads",
                                                "num_key_value_heads",
                                                "head_dim",
                                                "rms_norm_eps",
                                                "norm_eps",
                                                "tie_word_embeddings",
                                                "attention_bias",
                                                "hidden_act",
                                                "hidden_activation",
                                                "rope_theta",
                                                "rope_parameters",
                                                "rope_scaling",
                                                "partial_rotary_factor",
                                                "layer_types",
                                                "sliding_window",
                                                "use_sliding_window",
                                                "max_window_layers",
                                                "final_logit_softcapping",
                                                "attention_multiplier",
                                                "query_pre_attn_scalar",
                                                "use_qk_norm",
                                                "qk_norm",
                                                "qk_layernorm",
                                                "block_size"};
  static const std::vector<std::string> unrelated = {"torch_dtype",
                                                     "dtype",
                                                     "initializer_range",
                                                     "use_cache",
                                                     "max_position_embeddings",
                                                     "original_max_position_embeddings",
                                                     "max_sequence_length",
                                                     "model_max_length",
                                                     "seq_length",
                                                     "max_seq_len",
                                                     "pretraining_tp",
                                                     "auto_map",
                                                     "attn_implementation",
                                                     "is_causal",
                                                     "quantization_config",
                                                     "compression_config",
                                                     "tokenizer_class",
                                                     "id2label",
                                                     "label2id",
                                                     "num_labels",
                                                     "problem_type",
                                                     "finetuning_task",
                                                     "task_specific_params",
                                                     "name_or_path",
                                                     "return_dict",
                                                     "output_attentions",
                                                     "output_hidden_states",
                                                     "torchscript",
                                                     "use_bfloat16",
                                                     "is_decoder",
                                                     "is_encoder_decoder",
                                                     "chunk_size_feed_forward",
                                                     "pruned_heads",
                                                     "generation_config",
                                                     "temperature",
                                                     "top_k",
                                                     "top_p",
                                                     "typical_p",
                                                     "do_sample",
                                                     "num_beams",
                                                     "num_beam_groups",
                                                     "num_return_sequences",
                                                     "max_length",
                                                     "min_length",
                                                     "max_new_tokens",
                                                     "length_penalty",
                                                     "repetition_penalty",
                                                     "diversity_penalty",
                                                     "no_repeat_ngram_size",
                                                     "encoder_no_repeat_ngram_size",
                                                     "bad_words_ids",
                                                     "early_stopping",
                                                     "prefix",
                                                     "suppress_tokens",
                                                     "begin_suppress_tokens",
                                                     "exponential_decay_length_penalty",
                                                     "return_dict_in_generate",
                                                     "output_scores",
                                                     "router_aux_loss_coef",
                                                     "gradient_checkpointing"};
  const auto starts = [&](const char* text) { return key.rfind(text, 0) == 0; };
  const auto ends = [&](const std::string& text) {
    return key.size() >= text.size() &&
           key.compare(key.size() - text.size(), text.size(), text) == 0;
  };
  for (const Neutral& group : neutral_keys()) {
    if (is_one_of(key, group.keys)) {
      return true;
    }
  }
  return is_one_of(key, read) || is_one_of(key, unrelated) || starts("_") || starts("unsloth") ||
         starts("dlm_") || starts("dp_") || ends("_token_id") || ends("_token_ids") ||
         ends("_token_index") || ends("_version") || ends("_loss_weight");
}

}  // namespace

bool is_off(const Json& value) {
  return value.is_null() || value == false || value == "" ||
         (value.is_structured() && value.empty());
}

bool is_one_of(const std::string& key, const std::vector<std::string>& keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

void reject_what_is_not_represented(const JsonView& root, const JsonView& model,
                                    const std::string& model_type) {
  reject_not_neutral(root);
  reject_not_neutral(model);
  for (const auto& [key, at] : members(model)) {
    require(is_understood(key) || is_off(*at.value), place(at), " is ", shown(*at.value),
            ", a key that is not known and may change the model's function; allowed is null or "
            "false");
  }
  for (const char* key : {"hidden_act", "hidden_activation"}) {
    const std::string act = get_string_or(model, key, "silu");
    require(act == "silu" || act == "swish", model.source, ": key '", key, "' is \"",
            printable(act), "\"; allowed is \"silu\"");
  }
  // Elsewhere the same keys mean norms over all heads at once, or without weights.
  const bool qk_norm = model_type == "qwen3";
  for (const char* key : {"use_qk_norm", "qk_norm", "qk_layernorm"}) {
    const auto at = find(model, key);
    require(!at || as_bool(*at) == qk_norm, at ? place(*at) : "", " is ",
            at ? shown(*at->value) : "", "; allowed is ", qk_norm ? "true" : "false", " in a ",
            model_type, " model");
  }
  if (find(model, "architectures") || find(root, "architectures")) {
    const JsonView& holder = find(model, "architectures") ? model : root;
    for (const JsonView& at : get_array(holder, "architectures")) {
      const std::string text = as_string(at);
      for (const char* part : {"Draft", "Speculator", "Eagle"}) {
        require(text.find(part) == std::string::npos, place(at), " is \"", printable(text),
                "\", a drafter; allowed are language models");
      }
    }
  }
}

}  // namespace bdlm
