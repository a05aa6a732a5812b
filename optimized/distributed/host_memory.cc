#include "optimized/distributed/host_memory.h"

#include <cstring>
#include <new>

#include "reference/base/error.h"
#include "reference/base/small_float.h"

namespace bdlm::distributed {
namespace {

constexpr std::align_val_t alignment{256};

template <class T>
void add_as(void* to, const void* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    static_cast<T*>(to)[i] += static_cast<const T*>(from)[i];
  }
}

template <class T>
void round_to_bf16_as(void* to, const void* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    static_cast<uint16_t*>(to)[i] = round_to_bf16(static_cast<const T*>(from)[i]);
  }
}

}  // namespace

void* HostMemory::allocate(int64_t bytes) {
  return ::operator new(static_cast<size_t>(bytes), alignment);
}

void HostMemory::release(void* block) {
  ::operator delete(block, alignment);
}

void HostMemory::copy(void* to, const void* from, int64_t bytes) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

void HostMemory::fill(void* to, unsigned char value, int64_t bytes) {
  std::memset(to, value, static_cast<size_t>(bytes));
}

void HostMemory::add(void* to, const void* from, int64_t count, Format dtype) {
  require<LogicError>(dtype == Format::fp32 || dtype == Format::f64, "sums are not taken in ",
                      name(dtype));
  dtype == Format::fp32 ? add_as<float>(to, from, count) : add_as<double>(to, from, count);
}

void HostMemory::convert(void* to, Format to_type, const void* from, Format from_type,
                         int64_t count) {
  if (to_type == from_type) {
    copy(to, from, count * size_of(to_type));
    return;
  }
  require<LogicError>(to_type == Format::bf16 && from_type != Format::fp16, "nothing becomes ",
                      name(to_type), " from ", name(from_type));
  from_type == Format::fp32 ? round_to_bf16_as<float>(to, from, count)
                            : round_to_bf16_as<double>(to, from, count);
}

const ElementType* HostMemory::element(Format dtype) const {
  switch (dtype) {
    case Format::bf16:
    case Format::fp16:
      return element_type<uint16_t>();
    case Format::fp32:
      return element_type<float>();
    case Format::f64:
      break;
  }
  return element_type<double>();
}

}  // namespace bdlm::distributed
