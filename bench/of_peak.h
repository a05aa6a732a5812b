#pragma once
// Rates beside the FMA peak that the machine shows in the same run.
//
// Counters: `GFLOP/s`; `of_peak`, its share of the peak measured at the start of this very run on
// the same threads; and `of_peak_cpu`, the same by processor time instead of elapsed time, for a
// machine that is shared (with OMP_WAIT_POLICY=passive, so that waiting is not counted as work).

#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <numeric>
#include <vector>

#include "reference/base/parallel_for.h"

namespace bdlm {

inline __m256d splat(double x) {
  return _mm256_set1_pd(x);
}
inline __m256 splat(float x) {
  return _mm256_set1_ps(x);
}
inline __m256d multiply_add(__m256d a, __m256d b, __m256d c) {
  return _mm256_fmadd_pd(a, b, c);
}
inline __m256 multiply_add(__m256 a, __m256 b, __m256 c) {
  return _mm256_fmadd_ps(a, b, c);
}

/// FLOP of one burst of multiply-adds of T, float or double, on 12 accumulators that all differ, so
/// that no compiler can fold them into one.
template <class T>
double burst(int64_t steps, T seed) {
  constexpr T small = sizeof(T) == 8 ? T(1e-9) : T(1e-6);
  decltype(splat(seed)) sum[12];
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) {
    sum[i] = splat(seed + static_cast<T>(i) * T(1e-3));
  }
  const auto a = splat(1 - small);
  const auto b = splat(seed * small);
  for (int64_t k = 0; k < steps; ++k) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) {
      sum[i] = multiply_add(sum[i], a, b);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) {
    benchmark::DoNotOptimize(sum[i]);
  }
  constexpr int64_t lanes = 32 / sizeof(T);
  return static_cast<double>(steps * 12 * lanes * 2);
}

/// A burst of some 20 ms on every thread; returns their FLOP.
template <class T>
double burst_on_all_threads() {
  constexpr int64_t steps = 10'000'000;
  std::vector<double> flop(max_threads());
  parallel_for(max_threads(),
               [&](int64_t i, int) { flop[i] = burst<T>(steps, T(1.5) + static_cast<T>(i)); });
  return std::accumulate(flop.begin(), flop.end(), 0.0);
}

/// FLOP/s, by elapsed time and by the processor time that all threads used together.
struct Rate {
  double elapsed = 0;
  double processor = 0;
};

/// Measures one stretch of work.
class Stopwatch {
 public:
  Rate rate(double flop) const {
    const double processor = static_cast<double>(std::clock() - ticks_) / CLOCKS_PER_SEC;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    return {flop / elapsed.count(), flop / processor};
  }

 private:
  std::clock_t ticks_ = std::clock();
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// The best of several bursts, measured when first asked.
template <class T>
const Rate& peak() {
  static const Rate value = [] {
    Rate best;
    for (int repeat = 0; repeat < 15; ++repeat) {
      const Stopwatch watch;
      const double flop = burst_on_all_threads<T>();
      const Rate rate = watch.rate(flop);
      best = {std::max(best.elapsed, rate.elapsed), std::max(best.processor, rate.processor)};
    }
    return best;
  }();
  return value;
}

/// Runs the benchmark's loop on `work`, which is `flop` operations, and sets the counters.
template <class T>
void measure(benchmark::State& state, double flop, const auto& work) {
  const Stopwatch watch;
  for (auto _ : state) {
    work();
    benchmark::ClobberMemory();
  }
  const Rate rate = watch.rate(flop * static_cast<double>(state.iterations()));
  state.counters["GFLOP/s"] = rate.elapsed * 1e-9;
  state.counters["of_peak"] = rate.elapsed / peak<T>().elapsed;
  state.counters["of_peak_cpu"] = rate.processor / peak<T>().processor;
  state.counters["threads"] = max_threads();
}

/// A program of benchmarks: the peak is measured first, while nothing else has run.
template <class T>
int run_benchmarks(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  peak<T>();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace bdlm
