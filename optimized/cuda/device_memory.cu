#include <cuda_bf16.h>

#include <algorithm>

#include "optimized/cuda/device_memory.h"
#include "optimized/cuda/failure.h"

namespace bdlm::cuda {
namespace {

constexpr int threads = 256;

int blocks_for(int64_t count) {
  return static_cast<int>(std::min<int64_t>((count + threads - 1) / threads, 1 << 16));
}

template <class T>
__global__ void add_kernel(T* to, const T* from, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * threads;
  for (int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += step) {
    to[i] += from[i];
  }
}

__device__ __nv_bfloat16 to_bf16(float x) {
  return __float2bfloat16_rn(x);
}
__device__ __nv_bfloat16 to_bf16(double x) {
  return __double2bfloat16(x);
}

template <class T>
__global__ void round_kernel(__nv_bfloat16* to, const T* from, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * threads;
  for (int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += step) {
    to[i] = to_bf16(from[i]);
  }
}

template <class T>
void add_on(cudaStream_t stream, void* to, const void* from, int64_t count) {
  if (count > 0) {
    add_kernel<<<blocks_for(count), threads, 0, stream>>>(static_cast<T*>(to),
                                                          static_cast<const T*>(from), count);
    check(cudaGetLastError(), "adding on the device");
  }
}

template <class T>
void round_on(cudaStream_t stream, void* to, const void* from, int64_t count) {
  if (count > 0) {
    round_kernel<<<blocks_for(count), threads, 0, stream>>>(static_cast<__nv_bfloat16*>(to),
                                                            static_cast<const T*>(from), count);
    check(cudaGetLastError(), "rounding on the device");
  }
}

void copy_on(cudaStream_t stream, void* to, const void* from, int64_t bytes) {
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream),
        "copying on the device");
}

// Elements between ranks: the calling thread's own stream, and done when the call returns.

template <class T>
void copy_elements(void* to, const void* from, int64_t count) {
  copy_on(cudaStreamPerThread, to, from, count * static_cast<int64_t>(sizeof(T)));
  check(cudaStreamSynchronize(cudaStreamPerThread), "copying between ranks");
}

template <class T>
void add_elements(void* to, const void* from, int64_t count) {
  add_on<T>(cudaStreamPerThread, to, from, count);
  check(cudaStreamSynchronize(cudaStreamPerThread), "adding ranks' parts");
}

void add_no_elements(void* /*to*/, const void* /*from*/, int64_t /*count*/) {
  throw LogicError("sums over ranks are taken in fp32 or f64");
}

template <class T>
void* element_at(void* data, int64_t index) {
  return static_cast<T*>(data) + index;
}

}  // namespace

DeviceMemory::DeviceMemory() {
  check(cudaGetDevice(&device_), "asking for the device");
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}

DeviceMemory::~DeviceMemory() {
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

void* DeviceMemory::allocate(int64_t bytes) {
  void* block = nullptr;
  check(cudaMallocAsync(&block, static_cast<size_t>(bytes), stream_), "allocating on the device");
  return block;
}

void DeviceMemory::release(void* block) {
  // Called by destructors, also while an error is on its way.
  cudaFreeAsync(block, stream_);
}

void DeviceMemory::copy(void* to, const void* from, int64_t bytes) {
  copy_on(stream_, to, from, bytes);
}

void DeviceMemory::fill(void* to, unsigned char value, int64_t bytes) {
  check(cudaMemsetAsync(to, value, static_cast<size_t>(bytes), stream_), "filling on the device");
}

void DeviceMemory::add(void* to, const void* from, int64_t count, distributed::Format dtype) {
  require<LogicError>(dtype == distributed::Format::fp32 || dtype == distributed::Format::f64,
                      "sums are not taken in ", distributed::name(dtype));
  dtype == distributed::Format::fp32 ? add_on<float>(stream_, to, from, count)
                                     : add_on<double>(stream_, to, from, count);
}

void DeviceMemory::convert(void* to, distributed::Format to_type, const void* from,
                           distributed::Format from_type, int64_t count) {
  if (to_type == from_type) {
    copy(to, from, count * distributed::size_of(to_type));
    return;
  }
  require<LogicError>(
      to_type == distributed::Format::bf16 && from_type != distributed::Format::fp16,
      "nothing becomes ", distributed::name(to_type), " from ", distributed::name(from_type));
  from_type == distributed::Format::fp32 ? round_on<float>(stream_, to, from, count)
                                         : round_on<double>(stream_, to, from, count);
}

void DeviceMemory::synchronize() {
  check(cudaStreamSynchronize(stream_), "waiting for the device");
}

const ElementType* DeviceMemory::element(distributed::Format dtype) const {
  static const ElementType half{
      "bf16 on a device", 2, false, copy_elements<uint16_t>, add_no_elements, element_at<uint16_t>};
  static const ElementType single{
      "fp32 on a device", 4, false, copy_elements<float>, add_elements<float>, element_at<float>};
  static const ElementType real{
      "f64 on a device", 8, false, copy_elements<double>, add_elements<double>, element_at<double>};
  switch (dtype) {
    case distributed::Format::bf16:
    case distributed::Format::fp16:
      return &half;
    case distributed::Format::fp32:
      return &single;
    case distributed::Format::f64:
      break;
  }
  return &real;
}

}  // namespace bdlm::cuda
