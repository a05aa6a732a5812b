#pragma once
// A communicator of the house as a plug-in sees it, with what it was asked for.

#include <string>
#include <vector>

#include "conformance/judge/rounding.h"
#include "conformance/plugin/bdlm_plugin.h"
#include "reference/schedule/communicator.h"

namespace bdlm {

/// One operation of one rank, in elements.
struct TrafficEntry {
  int32_t operation = BDLM_ALL_GATHER;
  /// Elements sent, or for BDLM_RECEIVE taken, padding included, as communicator.h counts bytes.
  int64_t elements = 0;
  Dtype dtype = Dtype::fp32;
  int32_t peer = -1;
  std::string purpose;
};

/// The entries of bdlm_communicator over a Communicator, for one rank. An operation that throws
/// returns BDLM_COMMUNICATION, and `error` keeps the first text. Sums in bf16 and fp16 are rounded
/// after every addition.
class PluginGroup {
 public:
  /// Waits `delay_us` before every operation: a peer that is late.
  explicit PluginGroup(Communicator& communicator, int64_t delay_us = 0);
  PluginGroup(const PluginGroup&) = delete;
  PluginGroup& operator=(const PluginGroup&) = delete;

  const bdlm_communicator* get() const { return &plugin_; }
  const std::vector<TrafficEntry>& traffic() const { return traffic_; }
  const std::string& error() const { return error_; }
  /// The first error was that another rank had left.
  bool aborted() const { return aborted_; }

 private:
  template <class F>
  static bdlm_status guarded(void* self, const F& f);
  void record(int32_t operation, int64_t elements, bdlm_dtype dtype, int32_t peer,
              const char* purpose);

  Communicator& communicator_;
  int64_t delay_us_;
  bdlm_communicator plugin_{};
  std::vector<TrafficEntry> traffic_;
  std::string error_;
  bool aborted_ = false;
};

}  // namespace bdlm
