#pragma once
// How large the tiles of the kernels are. Eight warps a CTA; a warp has 16 rows (of queries; of
// keys for dK and dV) and one part of the channels of what it computes. Warps of the same rows
// compute the same scores.

#include <type_traits>

#include "optimized/cuda/mask_tables.h"

namespace bdlm::cuda {

constexpr int warps = 8;
constexpr int threads = 32 * warps;

/// Runs work(std::integral_constant<int, c>) for the number of channels c that heads are padded to.
template <class Work>
void for_channels(int head_dim, const Work& work) {
  if (head_dim <= 64) {
    work(std::integral_constant<int, 64>());
  } else if (head_dim <= 128) {
    work(std::integral_constant<int, 128>());
  } else if (head_dim <= 256) {
    work(std::integral_constant<int, 256>());
  } else {
    work(std::integral_constant<int, 512>());
  }
}

/// Of bf16.
template <int channels>
struct ForwardShape {
  static constexpr int parts = channels <= 256 ? 1 : 2;
  static constexpr int rows = 16 * warps / parts;
  static constexpr int keys = channels <= 128 ? 64 : 32;
  static constexpr int part_channels = channels / parts;
};

/// Of bf16: dQ of query rows.
template <int channels>
struct QueryGradientShape {
  static constexpr int parts = channels <= 256 ? 1 : 2;
  static constexpr int rows = 16 * warps / parts;
  static constexpr int keys = channels <= 128 ? 64 : channels <= 256 ? 32 : 16;
  static constexpr int part_channels = channels / parts;
};

/// Of bf16: dK and dV of keys, reading `rows` query rows at a time.
template <int channels>
struct KeyGradientShape {
  static constexpr int parts = channels <= 128 ? 1 : channels / 128;
  static constexpr int keys = 16 * warps / parts;
  static constexpr int rows = 32;
  static constexpr int part_channels = channels / parts;
};

/// Of double.
template <int channels>
struct DoubleForwardShape {
  static constexpr int parts = channels <= 128 ? 1 : channels / 128;
  static constexpr int rows = 16 * warps / parts;
  static constexpr int keys = channels <= 256 ? 16 : 8;
  static constexpr int part_channels = channels / parts;
};

/// Of double: dQ of rows on tiles of keys, or dK and dV of keys on tiles of rows.
template <int channels>
struct DoubleGradientShape {
  static constexpr int parts = channels / 64;
  static constexpr int own = 16 * warps / parts;
  static constexpr int streamed = channels <= 256 ? 16 : 8;
  static constexpr int part_channels = 64;
};

}  // namespace bdlm::cuda
