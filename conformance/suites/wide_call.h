#pragma once
// Attention on tensors beyond 32-bit offsets.

#include "conformance/plugin/backend.h"
#include "conformance/report/report.h"

namespace bdlm {

/// Three rows 2^30 elements apart (wide_tensors.h) against the same rows side by side: equal bits,
/// forward and backward, on two heads of `head_dim` channels. SKIPPED where there is no memory for
/// them.
CaseResult wide_attention(const Backend& backend, int64_t head_dim);

}  // namespace bdlm
