#pragma once
// Arrays that begin on a cache line.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <vector>

namespace bdlm::cpu {

/// Allocates on 64-byte boundaries, and leaves elements uninitialised where no value is given.
template <class T>
struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}
  T* allocate(std::size_t n) {
    return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{64}));
  }
  void deallocate(T* p, std::size_t) { ::operator delete (p, std::align_val_t{64}); }
  template <class U>
  void construct(U* p) {
    ::new (static_cast<void*>(p)) U;
  }
  template <class U, class... Args>
  void construct(U* p, Args&&... args) {
    ::new (static_cast<void*>(p)) U(static_cast<Args&&>(args)...);
  }
  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) { return true; }
};

using Floats = std::vector<float, AlignedAllocator<float>>;

inline constexpr float infinity = std::numeric_limits<float>::infinity();

constexpr int64_t round_up(int64_t n, int64_t step) {
  return (n + step - 1) / step * step;
}

}  // namespace bdlm::cpu
