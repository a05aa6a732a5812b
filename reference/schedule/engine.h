#pragma once
// What computes the steps of a rank program.

#include <vector>

#include "reference/schedule/communicator.h"
#include "reference/schedule/step.h"

namespace bdlm {

/// The two ends of a collective.
struct CollectiveTransfer {
  Payload send;
  Payload receive;
};

/// The two ends of a grouped exchange, in the order of the step's messages.
struct ExchangeTransfer {
  std::vector<PeerPayload> sends;
  std::vector<PeerPayload> receives;
};

/// Holds a rank's Q, K, V, states and gradients of one attention layer and executes steps on them.
/// `pack` readies the ends of a transfer; they stay valid until the same step's `unpack`, which the
/// interpreter calls once the transfer is complete.
class Engine {
 public:
  virtual ~Engine() = default;

  virtual void attend(const Attend& step) = 0;
  virtual void merge(const Merge& step) = 0;
  virtual void attend_backward(const AttendBackward& step) = 0;

  virtual CollectiveTransfer pack(const Gather& step) = 0;
  virtual CollectiveTransfer pack(const ReduceScatter& step) = 0;
  virtual ExchangeTransfer pack(const Exchange& step) = 0;
  virtual ExchangeTransfer pack(const ExchangeBack& step) = 0;

  virtual void unpack(const Gather& step) = 0;
  virtual void unpack(const ReduceScatter& step) = 0;
  virtual void unpack(const Exchange& step) = 0;
  virtual void unpack(const ExchangeBack& step) = 0;
};

}  // namespace bdlm
