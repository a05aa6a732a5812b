#pragma once
// A dense model, and its parameters as floats under their Hugging Face names.

#include <cstdint>
#include <string>
#include <vector>

#include "optimized/cpu/aligned.h"
#include "optimized/cpu/tensor_view.h"
#include "reference/layout/visibility.h"

namespace bdlm::cpu {

/// bdlm_dense_model, checked.
struct Model {
  int64_t layers = 1, hidden = 1, q_heads = 1, kv_heads = 1, head_dim = 2, mlp = 1, vocab = 1;
  double rope_theta = 1, rms_epsilon = 0;
  bool qk_norm = false, tied_head = false;
  std::vector<LayerRule> rules;  // (layers)

  int64_t q_width() const { return q_heads * head_dim; }
  int64_t kv_width() const { return kv_heads * head_dim; }
};

/// Throws InputError where the description is not one of a model.
Model read_model(const bdlm_dense_model* model);

/// Indices into the list of parameters. Matrices are (out, in).
struct LayerParameters {
  size_t input_norm;              // (hidden)
  size_t q_proj, k_proj, v_proj;  // (heads * head_dim, hidden)
  size_t q_norm, k_norm;          // (head_dim); with qk_norm only
  size_t o_proj;                  // (hidden, q_heads * head_dim)
  size_t post_norm;               // (hidden)
  size_t gate_proj, up_proj;      // (mlp, hidden)
  size_t down_proj;               // (hidden, mlp)
};

/// Which parameters a model has.
class ParameterList {
 public:
  explicit ParameterList(const Model& model);

  struct Entry {
    std::string name;
    int64_t rows, columns;  // of a vector: 1 and its size
    bool vector;
    int64_t offset;  // in flat storage
  };
  const std::vector<Entry>& entries() const { return entries_; }
  /// Floats of flat storage.
  int64_t size() const { return size_; }

  size_t embedding, final_norm, head;  // (vocab, hidden), (hidden), (vocab, hidden)
  std::vector<LayerParameters> layers;

 private:
  size_t add_matrix(const std::string& name, int64_t rows, int64_t columns);
  size_t add_vector(const std::string& name, int64_t size);

  std::vector<Entry> entries_;
  int64_t size_ = 0;
};

/// One float for every parameter: values, or gradients.
class ParameterValues {
 public:
  explicit ParameterValues(const ParameterList& list) : list_(list), data_(list.size(), 0.0F) {}

  float* operator[](size_t entry) { return data_.data() + list_.entries()[entry].offset; }
  const float* operator[](size_t entry) const {
    return data_.data() + list_.entries()[entry].offset;
  }
  const ParameterList& list() const { return list_; }
  Floats& data() { return data_; }

 private:
  const ParameterList& list_;
  Floats data_;
};

/// Finds every tensor of `list` among the given ones by its name. Throws InputError where one is
/// missing, or has another shape or element type.
std::vector<TensorView> find_tensors(const ParameterList& list, int64_t count,
                                     const char* const* names, const bdlm_tensor* const* tensors,
                                     const char* what, Element element);

void load(const std::vector<TensorView>& tensors, ParameterValues& values);
void store(const ParameterValues& values, const std::vector<TensorView>& tensors);

}  // namespace bdlm::cpu
