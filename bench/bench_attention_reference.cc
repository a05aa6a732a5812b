// Rates of the double reference attention, beside what the machine can do in the same run
// (of_peak.h), by useful pairs: 4 D pairs heads forward, 2.5 times that backward.

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "bench/of_peak.h"
#include "reference/math/attention.h"

namespace {

using bdlm::burst_on_all_threads;
using bdlm::Interval;
using bdlm::measure;

std::vector<double> gaussian(int64_t n, uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> x(n);
  std::generate(x.begin(), x.end(), [&] { return normal(engine); });
  return x;
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
  measure<double>(state, burst_on_all_threads<double>(), [] { burst_on_all_threads<double>(); });
}

void eigen_dgemm(benchmark::State& state) {
  const int64_t n = state.range(0);
  const Eigen::MatrixXd a = Eigen::MatrixXd::Random(n, n);
  const Eigen::MatrixXd b = Eigen::MatrixXd::Random(n, n);
  Eigen::MatrixXd c(n, n);
  // Eigen's own threads are off in this build; columns are dealt out by hand.
  const int64_t parts = bdlm::max_threads();
  measure<double>(state, 2.0 * static_cast<double>(n * n * n), [&] {
    bdlm::parallel_for(parts, [&](int64_t i, int) {
      const int64_t begin = n * i / parts;
      const int64_t count = n * (i + 1) / parts - begin;
      c.middleCols(begin, count).noalias() = a * b.middleCols(begin, count);
    });
  });
}

void attention_forward(benchmark::State& state) {
  Problem problem(state);
  measure<double>(state, problem.flop, [&] {
    problem.clear();
    problem.forward();
  });
}

void attention_backward(benchmark::State& state) {
  Problem problem(state);
  problem.forward();
  measure<double>(state, 2.5 * problem.flop, [&] { problem.backward(); });
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
  return bdlm::run_benchmarks<double>(argc, argv);
}
