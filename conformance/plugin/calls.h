#pragma once
// Calls of a backend's entries from arrays of double: tensors made, guarded, read back.

#include <cstdint>
#include <string>
#include <vector>

#include "conformance/plugin/backend.h"
#include "conformance/plugin/tensors.h"
#include "reference/layout/interval.h"
#include "reference/layout/row_set.h"
#include "reference/layout/sequence.h"
#include "reference/layout/visibility.h"
#include "reference/math/attention_tiles.h"

namespace bdlm {

/// How a call is made; what a right backend's result does not depend on.
struct CallOptions {
  TensorLayout tensors;
  /// A state is updated in its own memory.
  bool in_place = false;
  /// Runs on a stream of its own, behind `delay_us` microseconds of other work; where the backend
  /// has no streams, this is ignored.
  bool own_stream = false;
  int64_t delay_us = 0;
};

/// Keys of one stream, in the order of their positions.
struct CallKeys {
  /// All segments of one stream.
  RowSet rows;
  std::vector<double> k, v;         // (N, Hkv, D)
  std::vector<Interval> intervals;  // (R), of stored keys
};

/// The rows of one call of attention.
struct AttentionCall {
  Sequence sequence = Sequence::uniform(1, 1);
  LayerRule rule;
  AttentionShape shape;
  double scale = 1;
  RowSet rows;            // R of them
  std::vector<double> q;  // (R, Hq, D)
  std::vector<CallKeys> key_sets;
};

/// Rows of O and of LSE.
struct AttentionState {
  std::vector<double> o;    // (R, Hq, D)
  std::vector<double> lse;  // (R, Hq)
};

/// What came back; `violation` is CallTensors::check's.
struct AttentionForwardResult {
  CallStatus status;
  std::string violation;
  AttentionState out;
};

struct KeyGradients {
  std::vector<double> dk, dv;  // (N, Hkv, D)
};
struct AttentionBackwardResult {
  CallStatus status;
  std::string violation;
  std::vector<double> dq;               // (R, Hq, D)
  std::vector<KeyGradients> gradients;  // by key set
};

/// Whether a call's results are what other calls continue from, or the layer's outputs: this
/// chooses their formats from the contract.
enum class Stage : uint8_t { partial, final };

/// `state` may be null.
AttentionForwardResult call_attention(const Backend& backend, const AttentionCall& call,
                                      const AttentionState* state, Stage stage,
                                      const CallOptions& options = {});
/// `merged`: of all of a row's keys. `dq_state` may be null.
AttentionBackwardResult call_attention_backward(const Backend& backend, const AttentionCall& call,
                                                const AttentionState& merged,
                                                const std::vector<double>& d_o,
                                                const std::vector<double>* dq_state, Stage stage,
                                                const CallOptions& options = {});

/// (rows, heads, D) twice. Formats: partial_o and lse.
AttentionForwardResult call_merge(const Backend& backend, int64_t heads, int64_t head_dim,
                                  const AttentionState& a, const AttentionState& b,
                                  const CallOptions& options = {});

struct CrossEntropyCall {
  int64_t hidden_size = 1;          // E
  int64_t vocab = 1;                // V
  std::vector<double> hidden;       // (R, E)
  std::vector<double> head;         // (V, E)
  std::vector<int64_t> labels;      // (R), below 0: ignored
  std::vector<double> row_weights;  // (R), fp32 numbers
  double softcap = 0;
  int64_t excluded = -1;
  double upstream = 1;
};
struct CrossEntropyResult {
  CallStatus status;
  std::string violation;
  std::vector<double> row_loss;  // (R)
  std::vector<double> d_hidden;  // (R, E)
  std::vector<double> d_head;    // (V, E)
};
CrossEntropyResult call_cross_entropy(const Backend& backend, const CrossEntropyCall& call,
                                      const CallOptions& options = {});

}  // namespace bdlm
