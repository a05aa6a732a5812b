#pragma once
// Single elements of tensors, in any format.

#include <cuda_bf16.h>

#include "optimized/cuda/problem.h"

namespace bdlm::cuda {

__device__ inline int64_t offset_of(const HeadRows& t, int64_t row, int64_t head) {
  return row * t.row_stride + head * t.head_stride;
}

/// The element at `offset` as a T, float or double.
template <class T>
__device__ T load_element(const void* data, Element element, int64_t offset) {
  switch (element) {
    case Element::bf16:
      return static_cast<T>(__bfloat162float(static_cast<const __nv_bfloat16*>(data)[offset]));
    case Element::fp32:
      return static_cast<T>(static_cast<const float*>(data)[offset]);
    case Element::f64:
      return static_cast<T>(static_cast<const double*>(data)[offset]);
  }
  return T(0);
}

template <class T>
__device__ void store_element(void* data, Element element, int64_t offset, T x) {
  switch (element) {
    case Element::bf16:
      static_cast<__nv_bfloat16*>(data)[offset] = __float2bfloat16_rn(static_cast<float>(x));
      return;
    case Element::fp32:
      static_cast<float*>(data)[offset] = static_cast<float>(x);
      return;
    case Element::f64:
      static_cast<double*>(data)[offset] = static_cast<double>(x);
      return;
  }
}

template <class T>
__device__ T load_number(const RowNumbers& t, int64_t row, int64_t head) {
  return load_element<T>(t.data, t.element, row * t.row_stride + head);
}
template <class T>
__device__ void store_number(const RowNumbers& t, int64_t row, int64_t head, T x) {
  store_element<T>(t.data, t.element, row * t.row_stride + head, x);
}

}  // namespace bdlm::cuda
