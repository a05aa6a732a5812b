#pragma once
// Counted bytes of one attention layer against the ledger.

#include <vector>

#include "conformance/suites/layout_case.h"
#include "reference/layout/architecture.h"
#include "reference/layout/ledger.h"
#include "reference/math/attention_tiles.h"
#include "reference/schedule/communicator.h"

namespace bdlm {

/// A model of nothing but attention layers with these masks, as the ledger wants it.
Architecture attention_model(const std::vector<LayerRule>& rules, const AttentionShape& shape);

/// What one forward and one backward of a layer send, by rank, from the ledger's closed forms.
std::vector<int64_t> ledger_bytes(const LayoutCase& layout, const AttentionShape& shape,
                                  const ElementBytes& bytes);
/// The same with one size for all elements.
inline std::vector<int64_t> ledger_bytes(const LayoutCase& layout, const AttentionShape& shape,
                                         int64_t element_bytes) {
  return ledger_bytes(layout, shape, ElementBytes{element_bytes, element_bytes, element_bytes});
}

/// "" where every rank's log shows exactly these bytes sent for attention; else what differs.
std::string compare_bytes(const std::vector<int64_t>& expected,
                          const std::vector<std::vector<LogEntry>>& logs);

}  // namespace bdlm
