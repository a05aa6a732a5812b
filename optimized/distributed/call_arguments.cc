#include "optimized/distributed/call_arguments.h"

#include <utility>

namespace bdlm::distributed {

const std::vector<int64_t>& CallArguments::numbers(std::vector<int64_t> values) {
  numbers_.push_back(std::move(values));
  return numbers_.back();
}

bdlm_tensor* CallArguments::tensor(const void* data, Format dtype, std::vector<int64_t> shape) {
  if (data == nullptr) {
    return nullptr;
  }
  bdlm_tensor t{};
  // Entries take inputs by const pointers to this struct; its address is not const.
  t.data = const_cast<void*>(data);
  t.device = device_;
  t.ndim = static_cast<int32_t>(shape.size());
  t.dtype = dtype_of(dtype);
  numbers_.push_back(std::move(shape));
  t.shape = numbers_.back().data();
  tensors_.push_back(t);
  return &tensors_.back();
}

const bdlm_layout* CallArguments::layout(const Sequence& sequence, const LayerRule& rule) {
  std::vector<int64_t> blocks;
  for (int64_t b = 0; b < sequence.blocks(); ++b) {
    blocks.push_back(sequence.block(b).begin);
  }
  blocks.push_back(sequence.length());
  std::vector<int64_t> documents{0};
  for (const Interval& document : sequence.documents()) {
    documents.push_back(document.end);
  }
  bdlm_layout out{};
  out.length = sequence.length();
  out.blocks = static_cast<int64_t>(blocks.size()) - 1;
  out.block_start = numbers(std::move(blocks)).data();
  out.documents = static_cast<int64_t>(documents.size()) - 1;
  out.document_start = numbers(std::move(documents)).data();
  out.window = rule.window;
  out.clean_rule = rule.clean == CleanRule::block_causal ? BDLM_BLOCK_CAUSAL : BDLM_TOKEN_CAUSAL;
  layouts_.push_back(out);
  return &layouts_.back();
}

const std::vector<bdlm_segment>& CallArguments::segments(const RowSet& rows, int64_t first,
                                                         int64_t count) {
  std::vector<bdlm_segment> out;
  for (size_t s = 0; s < rows.segments().size(); ++s) {
    const Segment& segment = rows.segments()[s];
    const int64_t at = rows.offset(s);
    const Interval stored = intersect({at, at + segment.rows.size()}, {first, first + count});
    if (!stored.empty()) {
      out.push_back({segment.stream == Stream::clean ? BDLM_CLEAN : BDLM_CORRUPTED, 0,
                     segment.rows.begin + stored.begin - at, stored.size()});
    }
  }
  segments_.push_back(std::move(out));
  return segments_.back();
}

const int64_t* CallArguments::intervals(const std::vector<Interval>& keys, int64_t first,
                                        int64_t count) {
  std::vector<int64_t> out;
  out.reserve(2 * count);
  for (int64_t i = first; i < first + count; ++i) {
    out.push_back(keys[i].begin);
    out.push_back(keys[i].end);
  }
  return numbers(std::move(out)).data();
}

}  // namespace bdlm::distributed
