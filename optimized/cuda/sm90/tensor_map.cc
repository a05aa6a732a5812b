#include "optimized/cuda/sm90/tensor_map.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "optimized/cuda/failure.h"

namespace bdlm::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

/// The driver's function, which programs need not be linked with.
Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                         cudaEnableDefault, &found),
        "search for cuTensorMapEncodeTiled");
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    throw DeviceError("the driver has no cuTensorMapEncodeTiled; it must be of CUDA 12 or later");
  }
  return reinterpret_cast<Encode>(function);
}

}  // namespace

bool can_map(const HeadRows& tensor) {
  constexpr int64_t most = int64_t{1} << 40;
  const int64_t row = 2 * tensor.row_stride;
  const int64_t head = 2 * tensor.head_stride;
  return tensor.element == Element::bf16 && reinterpret_cast<uintptr_t>(tensor.data) % 16 == 0 &&
         row % 16 == 0 && head % 16 == 0 && 0 < row && row < most && 0 < head && head < most;
}

CUtensorMap map_of(const HeadRows& tensor, int64_t rows, int heads, int channels, int box_rows) {
  static const Encode encode = find_encode();
  // A tensor without rows still needs a map; nothing is copied by it.
  const cuuint64_t sizes[3] = {static_cast<cuuint64_t>(channels), static_cast<cuuint64_t>(heads),
                               static_cast<cuuint64_t>(std::max<int64_t>(rows, 1))};
  const cuuint64_t strides[2] = {static_cast<cuuint64_t>(2 * tensor.head_stride),
                                 static_cast<cuuint64_t>(2 * tensor.row_stride)};
  const cuuint32_t box[3] = {64, 1, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[3] = {1, 1, 1};
  CUtensorMap map;
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, tensor.data, sizes, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw DeviceError(join("cuTensorMapEncodeTiled returned ", static_cast<int>(status),
                           " for a tensor of ", rows, " rows, ", heads, " heads and ", channels,
                           " channels"));
  }
  return map;
}

}  // namespace bdlm::cuda
