#pragma once
// Rank programs of one attention layer as JSON: what another framework dumps to have it judged, and
// what bdlm plan --dump writes. The format is conformance/doors/plan_schema.json.

#include <string>
#include <vector>

#include "reference/base/json_file.h"
#include "reference/layout/ownership.h"
#include "reference/schedule/step.h"

namespace bdlm {

/// Bytes that a rank sends in one phase, as the dumping framework says.
struct DeclaredBytes {
  int64_t forward = -1, backward = -1;  // -1: not said
};

struct PlanFile {
  Sequence sequence = Sequence::uniform(1, 1);
  LayerRule rule;
  /// Bytes of K and V of one row, all heads together; and of their gradients.
  int64_t kv_row_bytes = 1, gradient_row_bytes = 1;
  /// By rank.
  std::vector<RankPlan> plans;
  std::vector<DeclaredBytes> declared;
};

/// Reads programs that nobody vouches for. Throws InputError, one line with `source`, on missing,
/// unknown or wrong keys, ranks that are missing or occur twice, rows that overlap, are unsorted or
/// lie outside of the sequence, and sizes above the limits: 2^30 positions, 2^22 blocks, 4096
/// ranks, 64 buffers and states a rank. What the steps do is not judged here.
PlanFile parse_plan(const JsonView& json);
PlanFile read_plan(const std::string& path);

/// JSON that reads back as the same programs, ending with a newline.
std::string write_plan(const PlanFile& plan);

/// What a rank sends: padded rows to all others in a gather, all shards but its own in a
/// reduce-scatter, its messages in an exchange.
struct SentBytes {
  int64_t forward = 0, backward = 0;
};
SentBytes sent_bytes(const PlanFile& file, const RankPlan& plan);

}  // namespace bdlm
