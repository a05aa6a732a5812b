#pragma once
// Tables of the masks that a context has met, on the device.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "optimized/cuda/mask_tables.h"

namespace bdlm::cuda {

class Staging;

/// Building the tables of a mask takes the host longer than a short kernel runs, and a training
/// run has few masks. Masks are told apart by every number of their intervals. At most
/// `most_masks` are kept, those that were used last; a mask of L rows has some 16 L bytes a key set
/// here and as many on the device. Used by one thread at a time.
class MaskCache {
 public:
  static constexpr size_t most_masks = 8;

  MaskCache() = default;
  ~MaskCache();
  MaskCache(const MaskCache&) = delete;
  MaskCache& operator=(const MaskCache&) = delete;

  /// Sets the tables of `problem` for `tiles`: work that is put into `stream` from now on finds
  /// them. intervals: of every key set, (R, 2). Throws InputError where an interval is not one of
  /// stored keys.
  void place(Problem& problem, const TileSizes& tiles, std::span<const int64_t* const> intervals,
             Staging& staging, cudaStream_t stream);

 private:
  /// The tables of a mask for one choice of tiles.
  struct Image {
    TileSizes tiles;
    void* device = nullptr;
    cudaEvent_t copied = nullptr;
  };
  struct Mask {
    int64_t rows = 0;
    std::vector<int64_t> keys;                    // by key set
    std::vector<std::vector<int64_t>> intervals;  // by key set (R, 2)
    std::vector<Image> images;
  };

  Mask& find(const Problem& problem, std::span<const int64_t* const> intervals);
  static void release(Mask& mask);

  std::list<Mask> masks_;  // the last one used comes first
};

}  // namespace bdlm::cuda
