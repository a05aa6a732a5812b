#pragma once
// How the copy engine finds its way in a tensor.

#include <cuda.h>

#include "optimized/cuda/problem.h"

namespace bdlm::cuda {

/// Whether the copy engine can read a bf16 tensor: its start and strides are multiples of 16 bytes
/// and below 2^40 bytes.
bool can_map(const HeadRows& tensor);

/// Boxes of (box_rows, 1 head, 64 channels) of a tensor (rows, heads, channels), swizzled by 128
/// bytes; zeros beyond the last row. Throws DeviceError where the driver refuses.
CUtensorMap map_of(const HeadRows& tensor, int64_t rows, int heads, int channels, int box_rows);

}  // namespace bdlm::cuda
