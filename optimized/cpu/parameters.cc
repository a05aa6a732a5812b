#include "optimized/cpu/parameters.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "reference/base/error.h"

namespace bdlm::cpu {

Model read_model(const bdlm_dense_model* model) {
  require(model != nullptr, "the model is missing");
  Model m;
  const auto positive = [](const char* what, int64_t value) {
    require(value >= 1, what, " is ", value, "; at least 1 is needed");
    return value;
  };
  m.layers = positive("layers", model->layers);
  m.hidden = positive("hidden", model->hidden);
  m.q_heads = positive("q_heads", model->q_heads);
  m.kv_heads = positive("kv_heads", model->kv_heads);
  m.head_dim = positive("head_dim", model->head_dim);
  m.mlp = positive("mlp", model->mlp);
  m.vocab = positive("vocab", model->vocab);
  require(m.q_heads % m.kv_heads == 0, "q_heads is ", m.q_heads,
          "; it must be a multiple of kv_heads, ", m.kv_heads);
  require(m.head_dim % 2 == 0, "head_dim is ", m.head_dim, "; it must be even");
  m.rope_theta = model->rope_theta;
  m.rms_epsilon = model->rms_epsilon;
  require(m.rope_theta > 0 && std::isfinite(m.rope_theta), "rope_theta is ", m.rope_theta,
          "; it must be finite and positive");
  require(m.rms_epsilon >= 0 && std::isfinite(m.rms_epsilon), "rms_epsilon is ", m.rms_epsilon,
          "; it must be finite and not negative");
  m.qk_norm = model->qk_norm != 0;
  m.tied_head = model->tied_head != 0;
  require(model->window != nullptr, "the windows of the model's layers are missing");
  require(model->clean_rule == BDLM_BLOCK_CAUSAL || model->clean_rule == BDLM_TOKEN_CAUSAL,
          "clean_rule is ", model->clean_rule, "; known are ", int{BDLM_BLOCK_CAUSAL},
          " (block-causal) and ", int{BDLM_TOKEN_CAUSAL}, " (token-causal)");
  const CleanRule clean =
      model->clean_rule == BDLM_BLOCK_CAUSAL ? CleanRule::block_causal : CleanRule::token_causal;
  for (int64_t n = 0; n < m.layers; ++n) {
    require(model->window[n] >= 0, "the window of layer ", n, " is ", model->window[n],
            "; allowed is 0 (full) or more");
    m.rules.push_back({clean, model->window[n]});
  }
  return m;
}

ParameterList::ParameterList(const Model& model) {
  const int64_t hidden = model.hidden;
  embedding = add_matrix("model.embed_tokens.weight", model.vocab, hidden);
  for (int64_t n = 0; n < model.layers; ++n) {
    const std::string layer = join("model.layers.", n, ".");
    const std::string attention = layer + "self_attn.";
    LayerParameters p{};
    p.input_norm = add_vector(layer + "input_layernorm.weight", hidden);
    p.q_proj = add_matrix(attention + "q_proj.weight", model.q_width(), hidden);
    p.k_proj = add_matrix(attention + "k_proj.weight", model.kv_width(), hidden);
    p.v_proj = add_matrix(attention + "v_proj.weight", model.kv_width(), hidden);
    if (model.qk_norm) {
      p.q_norm = add_vector(attention + "q_norm.weight", model.head_dim);
      p.k_norm = add_vector(attention + "k_norm.weight", model.head_dim);
    }
    p.o_proj = add_matrix(attention + "o_proj.weight", hidden, model.q_width());
    p.post_norm = add_vector(layer + "post_attention_layernorm.weight", hidden);
    p.gate_proj = add_matrix(layer + "mlp.gate_proj.weight", model.mlp, hidden);
    p.up_proj = add_matrix(layer + "mlp.up_proj.weight", model.mlp, hidden);
    p.down_proj = add_matrix(layer + "mlp.down_proj.weight", hidden, model.mlp);
    layers.push_back(p);
  }
  final_norm = add_vector("model.norm.weight", hidden);
  head = model.tied_head ? embedding : add_matrix("lm_head.weight", model.vocab, hidden);
}

size_t ParameterList::add_matrix(const std::string& name, int64_t rows, int64_t columns) {
  entries_.push_back({name, rows, columns, false, size_});
  size_ += rows * columns;
  return entries_.size() - 1;
}

size_t ParameterList::add_vector(const std::string& name, int64_t size) {
  const size_t entry = add_matrix(name, 1, size);
  entries_[entry].vector = true;
  return entry;
}

std::vector<TensorView> find_tensors(const ParameterList& list, int64_t count,
                                     const char* const* names, const bdlm_tensor* const* tensors,
                                     const char* what, Element element) {
  require(names != nullptr && tensors != nullptr, "names or ", what, "s are missing");
  std::vector<TensorView> out;
  for (const ParameterList::Entry& entry : list.entries()) {
    const auto* const at = std::find_if(names, names + count, [&](const char* name) {
      return name != nullptr && entry.name == name;
    });
    require(at != names + count, "there is no ", what, " called '", entry.name, "'");
    const std::string label = join(what, " '", entry.name, "'");
    TensorView view =
        TensorView::of(tensors[at - names], label.c_str(), entry.vector ? 1 : 2, {element});
    if (entry.vector) {
      view.expect(label.c_str(), {entry.columns});
    } else {
      view.expect(label.c_str(), {entry.rows, entry.columns});
    }
    out.push_back(view);
  }
  return out;
}

void load(const std::vector<TensorView>& tensors, ParameterValues& values) {
  for (size_t n = 0; n < tensors.size(); ++n) {
    const ParameterList::Entry& entry = values.list().entries()[n];
    for (int64_t row = 0; row < entry.rows; ++row) {
      tensors[n].load(entry.columns, values[n] + row * entry.columns, row);
    }
  }
}

void store(const ParameterValues& values, const std::vector<TensorView>& tensors) {
  for (size_t n = 0; n < tensors.size(); ++n) {
    const ParameterList::Entry& entry = values.list().entries()[n];
    for (int64_t row = 0; row < entry.rows; ++row) {
      tensors[n].store(entry.columns, values[n] + row * entry.columns, row);
    }
  }
}

}  // namespace bdlm::cpu
