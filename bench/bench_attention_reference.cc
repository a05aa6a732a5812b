// Rates of the double reference attention, beside what the machine can do in the same run.
//
// Counters: `GFLOP/s` by useful pairs (4 D pairs heads forward, 2.5 times that backward);
// `of_peak`, its share of the FMA peak measured at the start of this very run on the same threads;
// and `of_peak_cpu`, the same by processor time instead of elapsed time, for a machine that is
// shared (with OMP_WAIT_POLICY=passive, so that waiting is not counted as work).

#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <Eigen/Core>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <numeric>
#include <random>
#include <vector>

#include "reference/math/attention.h"

namespace {

using bdlm::Interval;

/// FLOP of one burst of multiply-adds on 12 accumulators that all differ, so that no compiler can
/// fold them into one.
double burst(int64_t steps, double seed) {
  __m256d sum[12];
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) {
    sum[i] = _mm256_set1_pd(seed + i * 1e-3);
  }
  const __m256d a = _mm256_set1_pd(1.0 - 1e-9);
  const __m256d b = _mm256_set1_pd(seed * 1e-9);
  for (int64_t k = 0; k < steps; ++k) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) {
      sum[i] = _mm256_fmadd_pd(sum[i], a, b);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) {
    benchmark::DoNotOptimize(sum[i]);
  }
  return static_cast<double>(steps) * 12 * 4 * 2;
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

constexpr int64_t burst_steps = 10'000'000;

/// A burst on every thread; returns their FLOP.
double burst_on_all_threads() {
  const int threads = bdlm::max_threads();
  std::vector<double> flop(threads);
  bdlm::parallel_for(
      threads, [&](int64_t i, int) { flop[i] = burst(burst_steps, 1.5 + static_cast<double>(i)); });
  return std::accumulate(flop.begin(), flop.end(), 0.0);
}

/// The best of several bursts of some 20 ms.
const Rate& peak() {
  static const Rate value = [] {
    Rate best;
    for (int repeat = 0; repeat < 15; ++repeat) {
      const Stopwatch watch;
      const double flop = burst_on_all_threads();
      const Rate rate = watch.rate(flop);
      best = {std::max(best.elapsed, rate.elapsed), std::max(best.processor, rate.processor)};
    }
    return best;
  }();
  return value;
}

std::vector<double> gaussian(int64_t n, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> x(n);
  std::generate(x.begin(), x.end(), [&] { return normal(engine); });
  return x;
}

/// Runs the benchmark's loop on `work`, which is `flop` operations, and sets the counters.
void measure(benchmark::State& state, double flop, const auto& work) {
  const Stopwatch watch;
  for (auto _ : state) {
    work();
    benchmark::ClobberMemory();
  }
  const Rate rate = watch.rate(flop * static_cast<double>(state.iterations()));
  state.counters["GFLOP/s"] = rate.elapsed * 1e-9;
  state.counters["of_peak"] = rate.elapsed / peak().elapsed;
  state.counters["of_peak_cpu"] = rate.processor / peak().processor;
  state.counters["threads"] = bdlm::max_threads();
}

/// Key intervals of the corrupted rows' own blocks (block > 0), of a causal triangle (-1) or all
/// keys.
std::vector<Interval> make_keys(int64_t length, int64_t block) {
  std::vector<Interval> keys;
  for (int64_t i = 0; i < length; ++i) {
    if (block > 0) {
      keys.push_back({i / block * block, std::min(length, (i / block + 1) * block)});
    } else {
      keys.push_back({0, block < 0 ? i + 1 : length});
    }
  }
  return keys;
}

/// Arguments: L, block (0 dense, -1 causal, M > 0 block-diagonal), query heads, KV heads, D.
struct Problem {
  explicit Problem(const benchmark::State& state)
      : shape{state.range(2), state.range(3), state.range(4)},
        keys(make_keys(state.range(0), state.range(1))) {
    const int64_t length = state.range(0);
    const int64_t nq = length * shape.q_heads * shape.head_dim;
    const int64_t nk = length * shape.kv_heads * shape.head_dim;
    q = gaussian(nq, 1);
    k = gaussian(nk, 2);
    v = gaussian(nk, 3);
    d_o = gaussian(nq, 4);
    o.resize(nq);
    dq.resize(nq);
    dk.resize(nk);
    dv.resize(nk);
    lse.resize(length * shape.q_heads);
    clear();
    for (const Interval& i : keys) {
      flop += 4.0 * static_cast<double>(shape.head_dim * i.size() * shape.q_heads);
    }
  }
  void clear() {
    std::fill(o.begin(), o.end(), 0.0);
    std::fill(lse.begin(), lse.end(), bdlm::LogDomain<double>::empty());
  }
  void forward() {
    bdlm::attention_forward<double>(shape, scale(), keys, q.data(), k.data(), v.data(), o.data(),
                                    lse.data());
  }
  void backward() {
    bdlm::attention_backward<double>(shape, scale(), keys, q.data(), k.data(), v.data(), o.data(),
                                     lse.data(), d_o.data(), dq.data(), dk.data(), dv.data());
  }
  double scale() const { return 1.0 / std::sqrt(static_cast<double>(shape.head_dim)); }

  bdlm::AttentionShape shape;
  std::vector<Interval> keys;
  std::vector<double> q, k, v, o, lse, d_o, dq, dk, dv;
  double flop = 0;
};

void fma_peak(benchmark::State& state) {
  measure(state, static_cast<double>(burst_steps) * 12 * 8 * bdlm::max_threads(),
          [] { burst_on_all_threads(); });
}

void eigen_dgemm(benchmark::State& state) {
  const int64_t n = state.range(0);
  const Eigen::MatrixXd a = Eigen::MatrixXd::Random(n, n);
  const Eigen::MatrixXd b = Eigen::MatrixXd::Random(n, n);
  Eigen::MatrixXd c(n, n);
  // Eigen's own threads are off in this build; columns are dealt out by hand.
  const int64_t parts = bdlm::max_threads();
  measure(state, 2.0 * static_cast<double>(n * n * n), [&] {
    bdlm::parallel_for(parts, [&](int64_t i, int) {
      const int64_t begin = n * i / parts;
      const int64_t count = n * (i + 1) / parts - begin;
      c.middleCols(begin, count).noalias() = a * b.middleCols(begin, count);
    });
  });
}

void attention_forward(benchmark::State& state) {
  Problem problem(state);
  measure(state, problem.flop, [&] {
    problem.clear();
    problem.forward();
  });
}

void attention_backward(benchmark::State& state) {
  Problem problem(state);
  problem.forward();
  measure(state, 2.5 * problem.flop, [&] { problem.backward(); });
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"L", "block", "Hq", "Hkv", "D"});
  b->Args({4096, 0, 4, 4, 128});
  b->Args({4096, -1, 4, 4, 128});
  b->Args({4096, 0, 8, 2, 64});
  b->Args({4096, 0, 4, 1, 128});
  b->Args({4096, 256, 4, 4, 128});
  b->Args({4096, 16, 4, 4, 128});
  b->Args({4096, 1, 4, 4, 128});
  b->Unit(benchmark::kMillisecond)->UseRealTime()->MeasureProcessCPUTime();
}

BENCHMARK(fma_peak)->Unit(benchmark::kMillisecond)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(eigen_dgemm)
    ->Arg(2048)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->MeasureProcessCPUTime();
BENCHMARK(attention_forward)->Apply(shapes);
BENCHMARK(attention_backward)->Apply(shapes);

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  peak();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
