#pragma once
// Loops over independent units of work.

#include <cstdint>
#include <exception>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace bdlm::cpu {

/// The number of threads that the next parallel_for may use.
inline int max_threads() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

/// Calls f(unit, thread) for every unit in [0, units), thread in [0, max_threads()). Who computes a
/// unit is not determined, so units must not share what they write. Rethrows one of the exceptions
/// thrown by f; the remaining units are skipped then.
template <class F>
void parallel_for(int64_t units, const F& f) {
#ifdef _OPENMP
  if (units > 1 && max_threads() > 1 && omp_in_parallel() == 0) {
    std::exception_ptr error;
    bool failed = false;
#pragma omp parallel for schedule(dynamic)
    for (int64_t unit = 0; unit < units; ++unit) {
      bool skip = false;
#pragma omp atomic read
      skip = failed;
      if (skip) {
        continue;
      }
      try {
        f(unit, omp_get_thread_num());
      } catch (...) {
#pragma omp critical(bdlm_cpu_error)
        error = std::current_exception();
#pragma omp atomic write
        failed = true;
      }
    }
    if (error) {
      std::rethrow_exception(error);
    }
    return;
  }
#endif
  for (int64_t unit = 0; unit < units; ++unit) {
    f(unit, 0);
  }
}

}  // namespace bdlm::cpu
