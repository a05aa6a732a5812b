#pragma once
// Two runs of the same thing, for instance the gradients at one rank and at eight: are they as
// close as two correct runs are?

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conformance/judge/contract.h"
#include "conformance/report/report.h"
#include "reference/base/safetensors.h"

namespace bdlm {

struct CompareOptions {
  /// Of both runs.
  Contract contract;
  /// Layers whose roundings meet in one tensor: 1 for the outputs of a layer, else those of the
  /// model.
  int64_t layers = 1;
  /// The longest sum behind an element, in terms: keys, rows of a batch.
  int64_t terms = 4096;
};

/// What two correct runs may differ by, as relative L2 error of a tensor (limits.h).
double relative_limit(const CompareOptions& options);

/// How far b is from a.
struct Difference {
  int64_t elements = 0;
  /// Elements that are NaN or infinite in one of them and not the same in the other.
  int64_t nonfinite = 0;
  int64_t first_nonfinite = -1;
  double max_abs = 0;
  /// The element of the largest |b - a|; -1 where all are equal.
  int64_t worst = -1;
  double norm_a = 0, norm_b = 0;
  /// |b - a|_2 / |a|_2; infinite where a is 0 and b is not.
  double relative = 0;
  /// <a, b> / (|a| |b|)
  double cosine = 1;
  /// <a, b> / <a, a> - 1
  double gain_minus_1 = 0;
};

Difference difference(const std::vector<double>& a, const std::vector<double>& b);

/// One tensor of both runs, in the order
///
///   nonfinite  NaN and infinities are at the same places, with the same signs
///   scale      b is a times a number: |gain - 1| exceeds what two runs' roundings give
///   bound      the relative L2 error exceeds relative_limit; up to limits::compare_marginal times
///              it is MARGINAL
///
/// The detail has a diagnosis where there is one: "B is A x 0.5", "B is zero", "only rows [8,16) of
/// axis 0 differ", "row 3 of B is row 5 of A: another order".
TensorResult compare_tensor(const std::string& name, const std::vector<int64_t>& shape,
                            const std::vector<double>& a, const std::vector<double>& b,
                            const CompareOptions& options);

/// All tensors of two files; one that only one of them has, or whose shapes differ, fails. A tensor
/// of integers must be equal.
CaseResult compare_files(const std::string& path_a, const std::string& path_b,
                         const CompareOptions& options);

}  // namespace bdlm
