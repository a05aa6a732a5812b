#pragma once
// Names, shapes and places of a dense model's parameters.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reference/base/error.h"
#include "reference/model/dense_config.h"

namespace bdlm {

/// One tensor: `size` elements from `offset` on in flat storage, row-major.
struct ParameterEntry {
  std::string name;
  std::vector<int64_t> shape;
  int64_t offset = 0;
  int64_t size = 0;
};

/// The tensors of one layer, as indices into the table. Matrices are (out, in).
struct LayerEntries {
  size_t input_norm;          // (hidden)
  size_t q_proj;              // (q_heads * head_dim, hidden)
  size_t k_proj, v_proj;      // (kv_heads * head_dim, hidden)
  size_t q_norm, k_norm;      // (head_dim); only with qk_norm
  size_t o_proj;              // (hidden, q_heads * head_dim)
  size_t post_norm;           // (hidden)
  size_t gate_proj, up_proj;  // (mlp, hidden)
  size_t down_proj;           // (hidden, mlp)
};

/// The parameters of a DenseConfig under their Hugging Face names.
class ParameterTable {
 public:
  explicit ParameterTable(const DenseConfig& config) {
    check(config);
    const int64_t hidden = config.hidden;
    const int64_t q_width = config.q_heads * config.head_dim;
    const int64_t kv_width = config.kv_heads * config.head_dim;
    embedding = add("model.embed_tokens.weight", {config.vocab, hidden});
    for (int64_t n = 0; n < config.layers; ++n) {
      const std::string layer = join("model.layers.", n, ".");
      const std::string attention = layer + "self_attn.";
      LayerEntries e{};
      e.input_norm = add(layer + "input_layernorm.weight", {hidden});
      e.q_proj = add(attention + "q_proj.weight", {q_width, hidden});
      e.k_proj = add(attention + "k_proj.weight", {kv_width, hidden});
      e.v_proj = add(attention + "v_proj.weight", {kv_width, hidden});
      if (config.qk_norm) {
        e.q_norm = add(attention + "q_norm.weight", {config.head_dim});
        e.k_norm = add(attention + "k_norm.weight", {config.head_dim});
      }
      e.o_proj = add(attention + "o_proj.weight", {hidden, q_width});
      e.post_norm = add(layer + "post_attention_layernorm.weight", {hidden});
      e.gate_proj = add(layer + "mlp.gate_proj.weight", {config.mlp, hidden});
      e.up_proj = add(layer + "mlp.up_proj.weight", {config.mlp, hidden});
      e.down_proj = add(layer + "mlp.down_proj.weight", {hidden, config.mlp});
      layers.push_back(e);
    }
    final_norm = add("model.norm.weight", {hidden});
    head = config.tied ? embedding : add("lm_head.weight", {config.vocab, hidden});
  }

  const std::vector<ParameterEntry>& entries() const { return entries_; }
  /// The number of elements of all tensors together.
  int64_t size() const { return size_; }

  /// Throws InputError when there is no tensor of that name.
  const ParameterEntry& find(std::string_view name) const {
    for (const ParameterEntry& entry : entries_) {
      if (entry.name == name) {
        return entry;
      }
    }
    throw InputError(join("the model has no parameter called '", name, "'"));
  }

  size_t embedding = 0;   // (vocab, hidden)
  size_t final_norm = 0;  // (hidden)
  size_t head = 0;        // (vocab, hidden); the embedding where tied
  std::vector<LayerEntries> layers;

 private:
  size_t add(std::string name, std::vector<int64_t> shape) {
    int64_t count = 1;
    for (const int64_t n : shape) {
      count *= n;
    }
    entries_.push_back({std::move(name), std::move(shape), size_, count});
    size_ += count;
    return entries_.size() - 1;
  }

  std::vector<ParameterEntry> entries_;
  int64_t size_ = 0;
};

}  // namespace bdlm
