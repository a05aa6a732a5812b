#pragma once
// The communicator of the plug-in interface as the house's own.

#include "conformance/plugin/bdlm_plugin.h"
#include "reference/schedule/communicator.h"

namespace bdlm::cpu {

/// Forwards to a bdlm_communicator, or where that is null is a group of one rank, to which nothing
/// is sent. Turns a status into CommunicationError.
class PluginCommunicator final : public Communicator {
 public:
  /// Throws InputError for a struct of another size or a rank that is not in its group.
  explicit PluginCommunicator(const bdlm_communicator* plugin);

  int rank() const override { return plugin_ == nullptr ? 0 : plugin_->rank; }
  int size() const override { return plugin_ == nullptr ? 1 : plugin_->ranks; }

 protected:
  Ticket start_all_gather(Payload send, Payload receive) override;
  Ticket start_reduce_scatter(Payload send, Payload receive) override;
  Ticket start_exchange(const std::vector<PeerPayload>& sends,
                        const std::vector<PeerPayload>& receives) override;
  void do_all_reduce(Payload data) override;
  void do_wait(Ticket ticket) override;

 private:
  /// What the operation that is being started is for: it has just been logged.
  const char* purpose() const;

  const bdlm_communicator* plugin_;
};

}  // namespace bdlm::cpu
