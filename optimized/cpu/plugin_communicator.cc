#include "optimized/cpu/plugin_communicator.h"

#include <string_view>

#include "reference/base/error.h"

namespace bdlm::cpu {
namespace {

bdlm_dtype dtype_of(const ElementType& type) {
  const std::string_view name(type.name);
  require<LogicError>(name == "f32" || name == "f64", "elements of type ", name,
                      " do not travel between ranks");
  return {2, static_cast<uint8_t>(8 * type.bytes), 1};
}

void check(bdlm_status status, const char* operation, const char* purpose) {
  require<CommunicationError>(status == BDLM_OK, operation, " for ", purpose,
                              " failed with status ", static_cast<int>(status));
}

std::vector<bdlm_peer_buffer> buffers(const std::vector<PeerPayload>& messages) {
  std::vector<bdlm_peer_buffer> out;
  for (const PeerPayload& message : messages) {
    out.push_back({message.peer, 0, message.payload.data, message.payload.count});
  }
  return out;
}

}  // namespace

PluginCommunicator::PluginCommunicator(const bdlm_communicator* plugin) : plugin_(plugin) {
  if (plugin != nullptr) {
    require(plugin->size >= sizeof(bdlm_communicator), "the communicator has ", plugin->size,
            " bytes; this version has ", sizeof(bdlm_communicator));
    require(0 <= plugin->rank && plugin->rank < plugin->ranks, "the rank is ", plugin->rank,
            "; it must be one of ", plugin->ranks);
    require(plugin->all_gather != nullptr && plugin->reduce_scatter != nullptr &&
                plugin->exchange != nullptr && plugin->wait != nullptr &&
                plugin->all_reduce != nullptr,
            "the communicator lacks an operation");
  }
}

const char* PluginCommunicator::purpose() const {
  return log().empty() ? "attention" : log().back().purpose.c_str();
}

Ticket PluginCommunicator::start_all_gather(Payload send, Payload receive) {
  Ticket ticket;
  check(plugin_->all_gather(plugin_->self, send.data, receive.data, send.count,
                            dtype_of(*send.type), purpose(), &ticket.id),
        "all_gather", purpose());
  return ticket;
}

Ticket PluginCommunicator::start_reduce_scatter(Payload send, Payload receive) {
  Ticket ticket;
  check(plugin_->reduce_scatter(plugin_->self, send.data, receive.data, receive.count,
                                dtype_of(*send.type), purpose(), &ticket.id),
        "reduce_scatter", purpose());
  return ticket;
}

Ticket PluginCommunicator::start_exchange(const std::vector<PeerPayload>& sends,
                                          const std::vector<PeerPayload>& receives) {
  const std::vector<bdlm_peer_buffer> out = buffers(sends);
  const std::vector<bdlm_peer_buffer> in = buffers(receives);
  Ticket ticket;
  check(plugin_->exchange(plugin_->self, std::ssize(out), out.data(), std::ssize(in), in.data(),
                          dtype_of(*element_type<float>()), purpose(), &ticket.id),
        "exchange", purpose());
  return ticket;
}

void PluginCommunicator::do_all_reduce(Payload data) {
  if (plugin_ != nullptr) {
    check(
        plugin_->all_reduce(plugin_->self, data.data, data.count, dtype_of(*data.type), purpose()),
        "all_reduce", purpose());
  }
}

void PluginCommunicator::do_wait(Ticket ticket) {
  check(plugin_->wait(plugin_->self, ticket.id), "a wait", purpose());
}

}  // namespace bdlm::cpu
