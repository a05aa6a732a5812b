#pragma once
// A rank program over a backend: what the steps of one attention layer ask for becomes calls of the
// plug-in's entries.

#include <map>
#include <mutex>
#include <vector>

#include "conformance/plugin/calls.h"
#include "conformance/suites/partial_sums.h"
#include "reference/math/attention_tiles.h"
#include "reference/schedule/engine.h"

namespace bdlm {

/// One layer under one mask, on one backend; shared by the engines of all ranks.
struct BackendLayer {
  const Backend& backend;
  Sequence sequence;
  LayerRule rule;
  AttentionShape shape;
  double scale = 1;
  CallOptions options;
  /// A backend is called by one thread at a time.
  std::mutex mutex;
};

/// One attention layer of one rank; R rows, N_b in buffer b. Numbers are doubles that are numbers
/// of the contract's formats: inputs in `input`; states in `partial_o`, and in `o` once a row's
/// last keys are attended; K and V travel in `input`, gradients in `reduce`, added in its order;
/// what is added here is rounded to `accumulate`, and at the end to `gradient`.
///
/// Every Attend is one call over all rows that it names, as long as each row's keys lie side by
/// side in storage. Where partial results are as precise as the accumulation, the last one names
/// all rows, so that finished ones pass through it; else a row's last call writes its output.
class BackendEngine : public Engine {
 public:
  /// Keeps references to both.
  BackendEngine(BackendLayer& layer, const RankPlan& plan);

  /// q (R, Hq, D), k and v (R, Hkv, D).
  void load(const std::vector<double>& q, const std::vector<double>& k,
            const std::vector<double>& v);
  /// After the forward. d_o (R, Hq, D).
  void load_gradient(const std::vector<double>& d_o);

  /// The merged state 0: (R, Hq, D) and (R, Hq).
  const AttentionState& output() const { return states_[0]; }
  /// (R, Hq, D), (R, Hkv, D), (R, Hkv, D), as the contract's `gradient`.
  std::vector<double> dq() const { return finished(dq_); }
  std::vector<double> dk() const { return finished(d_keys_[0]); }
  std::vector<double> dv() const { return finished(d_values_[0]); }

  void attend(const Attend& step) override;
  void merge(const Merge& step) override;
  void attend_backward(const AttendBackward& step) override;

  CollectiveTransfer pack(const Gather& step) override;
  CollectiveTransfer pack(const ReduceScatter& step) override;
  ExchangeTransfer pack(const Exchange& step) override;
  ExchangeTransfer pack(const ExchangeBack& step) override;
  void unpack(const Gather& step) override;
  void unpack(const ReduceScatter& step) override;
  void unpack(const Exchange& step) override;
  void unpack(const ExchangeBack& step) override;

 private:
  /// The ends of one transfer, by message; a collective has one.
  struct Transfer {
    std::vector<std::vector<double>> send, receive;
    std::vector<RankParts> send_parts, receive_parts;
  };

  int64_t q_width() const { return layer_.shape.q_heads * layer_.shape.head_dim; }
  int64_t kv_width() const { return layer_.shape.kv_heads * layer_.shape.head_dim; }
  /// Elements of one rank's padded K and V.
  template <class CollectiveStep>
  int64_t shard_size(const CollectiveStep& step) const {
    return 2 * step.padded_rows * kv_width();
  }
  const Contract& contract() const { return layer_.backend.contract(); }

  void attend_rows(const Attend& step, const RowSet& rows, Stage stage);
  AttentionCall call_of(const RowSet& rows) const;
  AttentionState state_of(int state, const RowSet& rows) const;
  void add_gradients(const RowSet& keys, int buffer, const KeyGradients& gradients);
  /// to += what, rounded to `accumulate`.
  void add(const RowSet& rows, const RowSet& storage, const double* what,
           std::vector<double>& to) const;
  std::vector<double> finished(std::vector<double> gradient) const;
  Transfer& start(int token, size_t messages);
  template <class ExchangeStep>
  ExchangeTransfer pack_messages(const ExchangeStep& step, const RowSet& storage,
                                 const std::vector<double>& keys, const std::vector<double>& values,
                                 Dtype dtype);

  BackendLayer& layer_;
  const RankPlan& plan_;
  /// Rows whose last keys the n-th Attend brings, and whether the n-th AttendBackward finishes all
  /// that it touches.
  std::vector<RowSet> finished_by_;
  std::vector<bool> finishes_;
  size_t attends_ = 0, backwards_ = 0;
  std::vector<double> q_, d_o_, dq_;                    // (R, Hq, D)
  std::vector<char> has_dq_;                            // (R)
  std::vector<std::vector<double>> keys_, values_;      // by buffer (N_b, Hkv, D)
  std::vector<std::vector<double>> d_keys_, d_values_;  // the same
  std::vector<AttentionState> states_;                  // (R, Hq, D), (R, Hq)
  std::map<int, Transfer> transfers_;                   // by token
};

}  // namespace bdlm
