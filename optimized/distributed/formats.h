#pragma once
// Number formats of a rank's tensors.

#include <cstdint>

#include "conformance/plugin/bdlm_plugin.h"

namespace bdlm::distributed {

enum class Format : uint8_t { bf16, fp16, fp32, f64 };

/// "bf16", "fp16", "fp32", "f64".
constexpr const char* name(Format format) {
  constexpr const char* names[] = {"bf16", "fp16", "fp32", "f64"};
  return names[static_cast<int>(format)];
}

/// Bytes of a number.
constexpr int64_t size_of(Format format) {
  return format == Format::f64 ? 8 : format == Format::fp32 ? 4 : 2;
}

/// As the plug-in interface has it.
constexpr bdlm_dtype dtype_of(Format format) {
  return {static_cast<uint8_t>(format == Format::bf16 ? 4 : 2),
          static_cast<uint8_t>(8 * size_of(format)), 1};
}

/// What an attention layer holds in which format.
struct Formats {
  Format input = Format::bf16;  ///< Q, K, V and dO
  /// Partial O, sums of gradients, and what of them travels: sums over ranks take no other
  /// rounding.
  Format sum = Format::fp32;
  Format lse = Format::fp32;
  Format o = Format::bf16;         ///< the layer's output
  Format gradient = Format::bf16;  ///< dQ, dK and dV in the end
};

}  // namespace bdlm::distributed
