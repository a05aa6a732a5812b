#pragma once
// T1: which (query, key) pairs does an implementation visit, and how often, seen from outside?
//
// With Q = K = 0 every visible key has probability 1/n.
//   O, z   V one-hot, a window of keys at a time: O_i exp(z_i) is how often row i visits each key
//   of
//          the window; exp(z_i) is its number of keys.
//   dV     dO one-hot, a window of rows at a time: dV_j exp(z_i), the same in the backward.
//   dQ     K one-hot on half of the channels, V_j = f_j e_0, dO = e_0: dQ_i = scale (f_j - mean_i)
//   /
//          n_i in the channel of key j.
//   dK     Q one-hot on the other half, in the same run: dK_j = scale (f_j - mean_i) / n_i in the
//          channel of row i. Scores stay 0.
// A payload is on one KV head and one query head at a time. Payloads f are irregular, and there are
// several: a pair counts under one where |f_j - mean_i| >= max|f| / 32. A row of one key has dS = 0
// and is judged by O and dV.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "conformance/plugin/backend.h"
#include "conformance/suites/layout_case.h"
#include "reference/math/attention_tiles.h"
#include "reference/schedule/step.h"

namespace bdlm {

/// A pair whose multiplicity is not what it should be.
struct PairFault {
  /// "O", "dV", "dQ", "dK"; "LSE" where a row's number of keys is wrong (no key is named).
  const char* output = "O";
  Stream stream = Stream::clean;
  int64_t row = 0;
  int64_t head = 0;
  Stream key_stream = Stream::clean;
  int64_t key = 0;
  int64_t kv_head = 0;
  double measured = 0;
  int64_t expected = 0;
};

/// What a probe saw.
struct ProbeFaults {
  int64_t count = 0;
  /// The first ones of each output.
  std::vector<PairFault> faults;
  int64_t pairs = 0;
  /// Largest distance from an integer, of what passed.
  double residual = 0;
  /// Pairs that no payload could show.
  int64_t unseen = 0;
};

/// Which of a problem's windows are probed.
struct ProbeWindows {
  /// Indices into the keys of both streams, clean ones first; a window begins at each. Empty: all.
  std::vector<int64_t> starts;
  /// Query heads whose payloads are probed; empty: all.
  std::vector<int64_t> heads;
};

/// Runs the plans on the backend, which may be all of a scheme or one rank's (backend_run.h).
/// Throws BackendFailure where a call fails.
ProbeFaults probe(const Backend& backend, const Sequence& sequence, const LayerRule& rule,
                  const std::vector<RankPlan>& plans, const AttentionShape& shape,
                  const ProbeWindows& windows = {});

/// The class of mistake that explains most of the faults, how many there are and where the first
/// one is, for instance "own clean block visible: 12 pairs, first O of corrupted row 5, head 0 with
/// clean key 4: measured 1 for 0".
std::string diagnose(const Sequence& sequence, const LayerRule& rule,
                     const std::vector<RankPlan>& plans, const AttentionShape& shape,
                     const ProbeFaults& faults);

}  // namespace bdlm
