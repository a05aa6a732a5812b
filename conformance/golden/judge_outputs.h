#pragma once
// The verdict on a user's outputs that lie in files.

#include <string>
#include <vector>

#include "conformance/golden/golden_vector.h"
#include "conformance/report/report.h"

namespace bdlm {

/// How outputs are found and what they are judged by.
struct OutputsOptions {
  /// Holds ID.safetensors with the outputs of the vector ID, in any floating dtype: attention o,
  /// lse and, all or none, dq, dk, dv; merge o, lse; cross_entropy row_loss, d_hidden, d_head; step
  /// loss and the gradient of every parameter under the parameter's name. Shapes as in the
  /// manifest.
  std::string folder;
  /// A glob over ids.
  std::string ids = "*";
  /// The folder of stored vectors, whose right values, H and sigma count; empty: made anew.
  std::string golden;
};

/// What of one vector is in a file. `golden` may be empty.
CaseResult judge_output_file(const GoldenCase& c, const std::string& path,
                             const std::string& golden);

/// Every vector of the choice: FAIL where a file cannot be read, a tensor is missing or has another
/// shape or no floating dtype, SKIPPED where there is no file, UNSUPPORTED for the backward of a
/// file with a forward alone. A file that no vector has is a FAIL of its own. Throws InputError
/// where the folder does not exist or holds no safetensors file.
std::vector<CaseResult> judge_outputs(const OutputsOptions& options);

}  // namespace bdlm
