#pragma once
// What `bdlm verify` is asked for.

#include <string>
#include <vector>

#include "conformance/suites/suite.h"

namespace bdlm {

struct VerifyOptions {
  std::string level = "quick";
  std::string ids = "*";
  std::vector<std::string> tiers;
  std::vector<std::string> schemes;
  std::vector<int> ranks;
  std::string shard = "1/1";
  int jobs = 0;
  bool strict = false;
  bool list = false;
  bool verbose = false;
  std::string json;
  std::string jsonl;
  std::string junit;
  std::string known_failures;
  // Of files.
  std::string outputs;
  std::string golden;
  // Of a backend.
  std::string backend;
  std::string contract;
  /// Seconds for a case; 0 where the option was not given.
  double timeout = 0;
  uint64_t seeds = 1;
};

Selection selection_of(const VerifyOptions& options);

/// `--shard`: the i-th of n parts.
struct Shard {
  int64_t index = 1;
  int64_t count = 1;
};
Shard parse_shard(const std::string& text);
void check_shard_has_cases(const std::string& shard, size_t cases);

/// The part of the cases that `--shard i/n` asks for. Throws InputError where it is empty.
template <class Case>
std::vector<Case> shard_of(std::vector<Case> all, const std::string& shard) {
  const Shard part = parse_shard(shard);
  std::vector<Case> out;
  for (size_t i = static_cast<size_t>(part.index - 1); i < all.size();
       i += static_cast<size_t>(part.count)) {
    out.push_back(std::move(all[i]));
  }
  check_shard_has_cases(shard, out.size());
  return out;
}

/// Options with which a case of this run runs again: of the backend, its contract, level and ranks;
/// of files, where they are.
std::string rerun_options(const VerifyOptions& options);

/// Judges a backend; returns the exit status.
int verify_backend(const VerifyOptions& options);

}  // namespace bdlm
