#pragma once
// The files door of `bdlm verify`.

#include <string>

namespace bdlm {

struct VerifyOutputsOptions {
  std::string outputs;
  /// Empty: golden/v1 where it lies in the current folder, else vectors are made anew.
  std::string golden;
  std::string ids = "*";
  bool strict = false;
  std::string json, jsonl, junit;
};

/// Judges a folder of outputs (judge_outputs.h), prints a line for every tensor, writes the
/// reports. Returns the exit status.
int verify_outputs(const VerifyOutputsOptions& options);

}  // namespace bdlm
