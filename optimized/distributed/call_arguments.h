#pragma once
// Arguments of a backend's attention entries, with the host arrays that they point to.

#include <deque>
#include <vector>

#include "optimized/distributed/formats.h"
#include "reference/layout/row_set.h"
#include "reference/layout/sequence.h"
#include "reference/layout/visibility.h"

namespace bdlm::distributed {

/// Keeps what a call's structs point to. Addresses stay valid while it lives.
class CallArguments {
 public:
  explicit CallArguments(bdlm_device device) : device_(device) {}
  CallArguments(const CallArguments&) = delete;
  CallArguments& operator=(const CallArguments&) = delete;

  /// A contiguous tensor; null for null.
  bdlm_tensor* tensor(const void* data, Format dtype, std::vector<int64_t> shape);
  const bdlm_layout* layout(const Sequence& sequence, const LayerRule& rule);
  /// Of the rows [first, first + count) in storage order.
  const std::vector<bdlm_segment>& segments(const RowSet& rows, int64_t first, int64_t count);
  /// Of the rows [first, first + count): (count, 2).
  const int64_t* intervals(const std::vector<Interval>& keys, int64_t first, int64_t count);

 private:
  const std::vector<int64_t>& numbers(std::vector<int64_t> values);

  bdlm_device device_;
  std::deque<bdlm_tensor> tensors_;
  std::deque<bdlm_layout> layouts_;
  std::deque<std::vector<bdlm_segment>> segments_;
  std::deque<std::vector<int64_t>> numbers_;
};

}  // namespace bdlm::distributed
