#pragma once
// Loops over independent units of work.

#include <cstdint>
#include <exception>
#include <mutex>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace bdlm {

/// The most threads that parallel_for uses.
inline int max_threads() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

/// Sets that number for the calling thread; without OpenMP it stays 1.
inline void set_max_threads([[maybe_unused]] int threads) {
#ifdef _OPENMP
  omp_set_num_threads(threads);
#endif
}

/// Calls f(unit, thread) for every unit in [0, units), on any thread and in any order: units must
/// not share what they write, and then no result depends on the number of threads. `thread` is
/// below max_threads(). An exception of the lowest failing unit is thrown once all units are done.
template <class F>
void parallel_for(int64_t units, const F& f) {
  std::exception_ptr error;
  int64_t failed = units;
  std::mutex mutex;
  const auto guarded = [&](int64_t unit, int thread) {
    try {
      f(unit, thread);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (unit < failed) {
        failed = unit;
        error = std::current_exception();
      }
    }
  };
#ifdef _OPENMP
  if (units > 1 && max_threads() > 1) {
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t unit = 0; unit < units; ++unit) {
      guarded(unit, omp_get_thread_num());
    }
  } else
#endif
  {
    for (int64_t unit = 0; unit < units; ++unit) {
      guarded(unit, 0);
    }
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

}  // namespace bdlm
