#pragma once
// The engine that computes a rank program by a backend's entries, in the backend's own memory.

#include <map>
#include <vector>

#include "optimized/distributed/memory.h"
#include "reference/base/error.h"
#include "reference/layout/sequence.h"
#include "reference/layout/visibility.h"
#include "reference/schedule/engine.h"
#include "reference/schedule/plan_calls.h"

namespace bdlm::distributed {

/// An attention layer of which ranks hold parts.
struct Layer {
  Sequence sequence;
  LayerRule rule;
  int64_t q_heads = 1, kv_heads = 1, head_dim = 1;
  double scale = 1;
};

/// A backend's entries with the context that they are called with.
struct Entries {
  const bdlm_backend* backend = nullptr;
  void* context = nullptr;
  Formats formats;  ///< those of its contract
};

/// An entry did not return BDLM_OK.
class EntryError : public Error {
 public:
  using Error::Error;
};

/// One attention layer of one rank; R is the number of the rank's rows, N_b that of buffer b's. All
/// pointers are to `memory`; formats are those of the backend's contract. Throws EntryError.
///
///   load(q, k, v); run(plan.forward, engine, ...);  output(), lse()
///   load_gradient(d_o); run(plan.backward, engine, ...); finish_gradients();  dq(), dk(), dv()
///
/// Every Attend is one call of the backend over both streams' keys in the buffer, as long as a
/// row's keys lie side by side there; the layer's last one writes the output. K and V travel as
/// `input`, gradients as `sum`.
class RankEngine final : public Engine {
 public:
  /// Keeps references to all. Throws InputError where the backend lacks attention or the merge.
  RankEngine(const Entries& entries, Memory& memory, const Layer& layer, const RankPlan& plan);

  /// q (R, Hq, D), k and v (R, Hkv, D): read until the layer's backward has run.
  void load(const void* q, const void* k, const void* v);
  /// After the forward. d_o (R, Hq, D). Clears all gradients.
  void load_gradient(const void* d_o);
  /// Rounds the sums to what the contract hands out.
  void finish_gradients();

  const void* output() const { return output_.data(); }      // (R, Hq, D), the merged state 0
  const void* lse() const { return states_[0].lse.data(); }  // (R, Hq)
  const void* dq() const { return finished_dq_.data(); }     // (R, Hq, D)
  const void* dk() const { return finished_dk_.data(); }     // (R, Hkv, D)
  const void* dv() const { return finished_dv_.data(); }     // (R, Hkv, D)

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
  struct State {
    Block o, lse;        // (R, Hq, D), (R, Hq)
    bool begun = false;  // all rows hold something
  };
  /// K and V, or their gradients, of one buffer.
  struct Pair {
    const void* k = nullptr;
    const void* v = nullptr;
    Block own_k, own_v;  // where they are not the caller's
  };
  struct Gradient {
    Block dk, dv;
    bool begun[2] = {false, false};  // by stream: holds a sum already
  };
  /// The ends of one transfer, by message; a collective has one.
  struct Transfer {
    std::vector<Block> send, receive;
  };
  class Call;

  const Formats& formats() const { return entries_.formats; }
  int64_t q_width() const { return layer_.q_heads * layer_.head_dim; }
  int64_t kv_width() const { return layer_.kv_heads * layer_.head_dim; }
  /// Bytes of the K or V of so many rows as they travel.
  int64_t row_bytes(Format dtype) const { return kv_width() * size_of(dtype); }

  void attend_rows(const PlanCall& call, int buffer, State& state, const Interval& rows,
                   bool finishes);
  void differentiate_rows(const PlanCall& call, int buffer, const Interval& rows);
  /// Calls an entry, with a workspace where it wants one.
  template <class Args>
  void call_entry(const char* entry, bdlm_status (*query)(void*, const Args*, uint64_t*),
                  bdlm_status (*run)(void*, const Args*), Args& args);
  void check(const char* entry, bdlm_status status) const;

  Transfer& start(int token, size_t messages);
  Payload payload(const Block& block, Format dtype) const;
  /// These rows of two arrays, the second ones `stride` rows behind the first.
  void take_pair(const RowSet& rows, const RowSet& storage, Format dtype, const void* a,
                 const void* b, int64_t stride, char* to);
  void put_pair(const RowSet& rows, int buffer, int64_t stride, const char* from);
  void add_pair(const RowSet& rows, int64_t stride, const char* from);
  template <class ExchangeStep>
  ExchangeTransfer pack_messages(const ExchangeStep& step, const RowSet& storage, Format dtype,
                                 const void* a, const void* b);

  const Entries& entries_;
  Memory& memory_;
  const Layer& layer_;
  const RankPlan& plan_;
  int64_t last_writer_;  // the forward's last step that writes state 0, by index
  int64_t steps_ = 0;    // Attend and Merge steps so far
  const void* q_ = nullptr;
  const void* d_o_ = nullptr;
  std::vector<Pair> keys_;     // by buffer (N_b, Hkv, D)
  std::vector<State> states_;  // by state
  Block output_;               // (R, Hq, D)
  Block dq_;                   // (R, Hq, D), sums
  bool dq_begun_ = false;
  std::vector<Gradient> gradients_;  // by buffer
  Block finished_dq_, finished_dk_, finished_dv_;
  Block workspace_;
  std::map<int, Transfer> transfers_;  // by token
};

}  // namespace bdlm::distributed
