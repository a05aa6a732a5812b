#pragma once
// The values of a dense model's parameters, or their gradients.

#include <cmath>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "reference/base/philox.h"
#include "reference/model/parameter_table.h"

namespace bdlm {

/// All tensors of a model in one flat array, in the order of the table.
template <class T>
class DenseParameters {
 public:
  /// Zeros.
  explicit DenseParameters(const DenseConfig& config)
      : table_(std::make_shared<ParameterTable>(config)), values_(table_->size(), T(0)) {}

  const ParameterTable& table() const { return *table_; }
  std::vector<T>& values() { return values_; }
  const std::vector<T>& values() const { return values_; }

  /// The tensor of an index of the table.
  T* operator[](size_t entry) { return values_.data() + table_->entries()[entry].offset; }
  const T* operator[](size_t entry) const {
    return values_.data() + table_->entries()[entry].offset;
  }

  /// The tensor of a Hugging Face name. Throws InputError when there is none.
  std::span<T> tensor(std::string_view name) {
    const ParameterEntry& entry = table_->find(name);
    return {values_.data() + entry.offset, static_cast<size_t>(entry.size)};
  }
  std::span<const T> tensor(std::string_view name) const {
    const ParameterEntry& entry = table_->find(name);
    return {values_.data() + entry.offset, static_cast<size_t>(entry.size)};
  }

  /// The same tensors in another scalar.
  template <class U>
  DenseParameters<U> cast() const {
    DenseParameters<U> out(table_);
    for (size_t i = 0; i < values_.size(); ++i) {
      out.values()[i] = U(values_[i]);
    }
    return out;
  }

 private:
  template <class U>
  friend class DenseParameters;
  explicit DenseParameters(std::shared_ptr<const ParameterTable> table)
      : table_(std::move(table)), values_(table_->size(), T(0)) {}

  std::shared_ptr<const ParameterTable> table_;
  std::vector<T> values_;
};

/// Random parameters at which activations, scores and logits are of order 1, so that no part of the
/// model, and no gradient, is negligible beside the others: matrices have deviation
/// 1.155 / sqrt(inputs), norm weights 1 +- 0.3. Tensor n of the table is Philox tensor n.
inline DenseParameters<double> random_parameters(const DenseConfig& config, uint64_t seed) {
  DenseParameters<double> parameters(config);
  const ParameterTable& table = parameters.table();
  for (size_t n = 0; n < table.entries().size(); ++n) {
    const ParameterEntry& entry = table.entries()[n];
    const Philox random(seed, static_cast<uint32_t>(n));
    const bool is_norm = entry.shape.size() == 1;
    // An untied embedding is read by rows and need not give logits of order 1.
    const bool unit = n == table.embedding && !config.tied;
    const double scale =
        is_norm ? 0.25 : (unit ? 1 : 1 / std::sqrt(static_cast<double>(entry.shape.back())));
    for (int64_t i = 0; i < entry.size; ++i) {
      parameters[n][i] = (is_norm ? 1 : 0) + scale * random.gaussian(i);
    }
  }
  return parameters;
}

}  // namespace bdlm
