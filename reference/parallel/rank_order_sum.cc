#include "reference/parallel/rank_order_sum.h"

#include <algorithm>

namespace bdlm {

void rank_order_sum(const ElementType& type, void* result, std::span<void* const> parts,
                    int64_t count) {
  // Blocks that stay in cache while the ranks' parts are added to them.
  constexpr int64_t kBlock = 2048;
  for (int64_t i = 0; i < count; i += kBlock) {
    const int64_t n = std::min(kBlock, count - i);
    void* block = type.at(result, i);
    if (result != parts[0]) {
      type.copy(block, type.at(parts[0], i), n);
    }
    for (void* part : parts.subspan(1)) {
      type.add(block, type.at(part, i), n);
    }
  }
}

}  // namespace bdlm
