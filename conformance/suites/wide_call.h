#pragma once
// Attention on tensors beyond 32-bit offsets.

#include "conformance/plugin/backend.h"
#include "conformance/report/report.h"

namespace bdlm {

/// Three rows 2^30 elements apart (wide_tensors.h) against the same rows side by side: equal bits,
/// forward and backward. SKIPPED where tensors do not live on the host, or so much address space
/// cannot be mapped.
CaseResult wide_attention(const Backend& backend);

}  // namespace bdlm
