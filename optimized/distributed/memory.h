#pragma once
// The memory in which a rank's tensors live, and the few operations on it besides a backend's own.

#include <cstdint>
#include <memory>

#include "optimized/distributed/formats.h"
#include "reference/schedule/communicator.h"

namespace bdlm::distributed {

/// Memory full of this byte holds NaN in every floating format.
inline constexpr unsigned char nan_byte = 0xFF;

/// Memory of one rank, with a stream: what is asked for happens in the order of the calls, and in
/// order with a backend's calls on `stream()`. Used by one thread. Sizes are in bytes, counts in
/// elements; no two arguments overlap. Throws what the implementation names where memory is
/// exhausted or the device fails.
class Memory {
 public:
  virtual ~Memory() = default;

  virtual bdlm_device device() const = 0;
  /// What a backend's call is given as its stream.
  virtual void* stream() const = 0;

  /// Aligned to 256 bytes. `release` may be asked for while work that reads the block waits.
  virtual void* allocate(int64_t bytes) = 0;
  virtual void release(void* block) = 0;

  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  /// Every byte becomes `value`.
  virtual void fill(void* to, unsigned char value, int64_t bytes) = 0;
  /// to += from; fp32 or f64.
  virtual void add(void* to, const void* from, int64_t count, Format dtype) = 0;
  /// to = from, rounded to nearest: from fp32 or f64 to itself or to bf16.
  virtual void convert(void* to, Format to_type, const void* from, Format from_type,
                       int64_t count) = 0;

  /// Returns once all that was asked for is done.
  virtual void synchronize() = 0;

  /// Elements as a communicator between ranks of this kind of memory moves them.
  virtual const ElementType* element(Format dtype) const = 0;
};

/// A block of memory, released at the end.
class Block {
 public:
  Block() = default;
  Block(Memory& memory, int64_t bytes)
      : data_(bytes > 0 ? memory.allocate(bytes) : nullptr, Release{&memory}), bytes_(bytes) {}

  /// The address `bytes` behind the beginning.
  char* at(int64_t bytes) const { return static_cast<char*>(data()) + bytes; }
  void* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }

 private:
  struct Release {
    Memory* memory;
    void operator()(void* block) const { memory->release(block); }
  };

  std::unique_ptr<void, Release> data_;
  int64_t bytes_ = 0;
};

}  // namespace bdlm::distributed
