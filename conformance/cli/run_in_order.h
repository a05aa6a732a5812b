#pragma once
// Many judgements beside each other, their results in order.

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "reference/base/parallel_for.h"

namespace bdlm {

/// The number of threads that `--jobs` asks for; 0 is one a core.
inline int job_count(int jobs) {
  return jobs > 0 ? jobs : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

/// Calls `compute(i)` for i < count on `jobs` threads, and hands what it returns to `take`, on the
/// caller's thread, in the order of i.
template <class Compute, class Take>
void run_in_order(size_t count, int jobs, const Compute& compute, const Take& take) {
  using Result = decltype(compute(size_t{0}));
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::optional<Result>> results(count);
  size_t next = 0;
  std::vector<std::jthread> workers;
  for (int j = 0; j < jobs; ++j) {
    workers.emplace_back([&](const std::stop_token& stop) {
      // Cases run beside each other; within one, the ranks are threads already.
      set_max_threads(1);
      while (!stop.stop_requested()) {
        size_t mine = 0;
        {
          const std::lock_guard lock(mutex);
          if (next >= count) {
            return;
          }
          mine = next++;
        }
        Result result = compute(mine);
        const std::lock_guard lock(mutex);
        results[mine] = std::move(result);
        changed.notify_one();
      }
    });
  }
  for (size_t i = 0; i < count; ++i) {
    std::optional<Result> result;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return results[i].has_value(); });
      result.swap(results[i]);
    }
    take(std::move(*result));
  }
}

}  // namespace bdlm
