#include "optimized/cuda/mask_cache.h"

#include <algorithm>

#include "optimized/cuda/context.h"
#include "optimized/cuda/failure.h"

namespace bdlm::cuda {

MaskCache::~MaskCache() {
  for (Mask& mask : masks_) {
    release(mask);
  }
}

// cudaFree waits for the kernels that read the tables.
void MaskCache::release(Mask& mask) {
  for (const Image& image : mask.images) {
    cudaFree(image.device);
    cudaEventDestroy(image.copied);
  }
}

MaskCache::Mask& MaskCache::find(const Problem& problem,
                                 std::span<const int64_t* const> intervals) {
  const auto is_it = [&](const Mask& mask) {
    bool same = mask.rows == problem.rows && mask.keys.size() == intervals.size();
    for (size_t s = 0; same && s < intervals.size(); ++s) {
      same = mask.keys[s] == problem.sets[s].keys &&
             std::equal(mask.intervals[s].begin(), mask.intervals[s].end(), intervals[s]);
    }
    return same;
  };
  const auto found = std::find_if(masks_.begin(), masks_.end(), is_it);
  if (found != masks_.end()) {
    masks_.splice(masks_.begin(), masks_, found);
    return masks_.front();
  }
  Mask mask;
  mask.rows = problem.rows;
  for (size_t s = 0; s < intervals.size(); ++s) {
    mask.keys.push_back(problem.sets[s].keys);
    mask.intervals.emplace_back(intervals[s], intervals[s] + 2 * problem.rows);
  }
  masks_.push_front(std::move(mask));
  if (masks_.size() > most_masks) {
    release(masks_.back());
    masks_.pop_back();
  }
  return masks_.front();
}

void MaskCache::place(Problem& problem, const TileSizes& tiles,
                      std::span<const int64_t* const> intervals, Staging& staging,
                      cudaStream_t stream) {
  Mask& mask = find(problem, intervals);
  const auto known = std::find_if(mask.images.begin(), mask.images.end(),
                                  [&](const Image& image) { return image.tiles == tiles; });
  if (known != mask.images.end()) {
    Arena arena(known->device);
    place_tables(problem, tiles, arena);
    check(cudaStreamWaitEvent(stream, known->copied, 0), "cudaStreamWaitEvent");
    return;
  }
  Problem measured = problem;
  Arena sizes(nullptr);
  place_tables(measured, tiles, sizes);
  Image image;
  image.tiles = tiles;
  check(cudaMalloc(&image.device, std::max<size_t>(sizes.bytes(), 1)), "cudaMalloc");
  const cudaError_t made = cudaEventCreateWithFlags(&image.copied, cudaEventDisableTiming);
  if (made != cudaSuccess) {
    cudaFree(image.device);
  }
  check(made, "cudaEventCreate");
  mask.images.push_back(image);
  Arena arena(image.device);
  place_tables(problem, tiles, arena);
  try {
    const std::vector<std::byte> tables = build_tables(problem, tiles, intervals, image.device);
    staging.copy(image.device, tables.data(), tables.size(), stream);
    check(cudaEventRecord(image.copied, stream), "cudaEventRecord");
  } catch (...) {
    // What is wrong with these intervals has to be said the next time, too.
    release(mask);
    masks_.pop_front();
    throw;
  }
}

}  // namespace bdlm::cuda
