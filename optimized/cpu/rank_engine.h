#pragma once
// The engine that computes a rank program in float, on the kernels of this backend.

#include <map>
#include <vector>

#include "optimized/cpu/aligned.h"
#include "optimized/cpu/attention_problem.h"
#include "reference/schedule/engine.h"

namespace bdlm::cpu {

/// One attention layer of one rank. R is the number of the rank's rows, N_b that of buffer b's.
///
///   load(q, k, v); run(plan.forward, engine, ...);  output()
///   load_gradient(d_o); run(plan.backward, engine, ...);  dq(), dk(), dv()
class RankEngine final : public Engine {
 public:
  /// Keeps a reference to `plan`. Of `shape`, `rows` is not used.
  RankEngine(const RankPlan& plan, const AttentionShape& shape, float scale);

  /// q (R, Hq, D), k and v (R, Hkv, D).
  void load(Floats q, Floats k, Floats v);
  /// d_o (R, Hq, D). Clears all gradients.
  void load_gradient(Floats d_o);

  const Floats& output() const { return o_[0]; }  // (R, Hq, D), the merged state 0
  Floats& dq() { return dq_; }                    // (R, Hq, D)
  Floats& dk() { return dk_[0]; }                 // (R, Hkv, D)
  Floats& dv() { return dv_[0]; }

  void attend(const Attend& step) override;
  void merge(const Merge& step) override;
  void attend_backward(const AttendBackward& step) override;

  // A shard travels as its K rows, padding, its V rows, padding; so do gradients and messages.
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
  struct Buffers {
    std::vector<Floats> send, receive;
  };

  int64_t q_width() const { return shape_.q_heads * shape_.head_dim; }
  int64_t kv_width() const { return shape_.kv_heads * shape_.head_dim; }
  Buffers& start(int token, size_t messages);
  /// Query rows `rows` on keys of `buffer`.
  AttentionProblem problem(const Interval& rows, const std::vector<int64_t>& intervals, int buffer,
                           int state);
  template <class ExchangeStep>
  ExchangeTransfer pack_messages(const ExchangeStep& step, const RowSet& storage, const Floats& k,
                                 const Floats& v);

  const RankPlan& plan_;
  AttentionShape shape_;
  float scale_;
  Floats q_, d_o_, dq_;
  std::vector<Floats> k_, v_, dk_, dv_;  // by buffer (N_b, Hkv, D)
  std::vector<Floats> o_, lse_;          // by state (R, Hq, D), (R, Hq)
  std::map<int, Buffers> transfers_;     // by token
};

}  // namespace bdlm::cpu
