// Rates of the float CPU backend, called through the plug-in interface, beside what the machine can
// do in the same run (of_peak.h), by useful pairs: 4 D pairs heads forward, 2.5 times that
// backward; 8 rows classes channels for cross-entropy with its gradients, whose logits are computed
// twice.

#include <cmath>
#include <stdexcept>
#include <vector>

#include "bench/of_peak.h"
#include "optimized/cpu/backend.h"
#include "reference/base/philox.h"

namespace {

using bdlm::measure;

/// The backend and a context of it.
class Backend {
 public:
  Backend() { check(backend_.create(&context_)); }
  ~Backend() { backend_.destroy(context_); }
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  void check(bdlm_status status) const {
    if (status != BDLM_OK) {
      throw std::runtime_error(context_ == nullptr ? "no context" : backend_.last_error(context_));
    }
  }
  const bdlm_backend* operator->() const { return &backend_; }
  void* context() const { return context_; }

 private:
  const bdlm_backend& backend_ = *bdlm_cpu_backend();
  void* context_ = nullptr;
};

/// A contiguous tensor of random floats.
struct Tensor {
  Tensor(std::vector<int64_t> extents, uint32_t id) : shape(std::move(extents)) {
    int64_t size = 1;
    for (const int64_t n : shape) {
      size *= n;
    }
    const bdlm::Philox random(1, id);
    for (int64_t i = 0; i < size; ++i) {
      data.push_back(static_cast<float>(random.gaussian(i)));
    }
    tensor = {data.data(), {1, 0}, static_cast<int32_t>(shape.size()), {2, 32, 1}, shape.data(),
              nullptr,     0};
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  std::vector<int64_t> shape;
  std::vector<float> data;
  bdlm_tensor tensor{};
};

/// Arguments: L, block (0 dense, -1 causal, M > 0 block-diagonal), query heads, KV heads, D.
struct Attention {
  explicit Attention(const benchmark::State& state)
      : length(state.range(0)),
        q({length, state.range(2), state.range(4)}, 0),
        k({length, state.range(3), state.range(4)}, 1),
        v(k.shape, 2),
        d_o(q.shape, 3),
        o(q.shape, 4),
        dq(q.shape, 5),
        dk(k.shape, 6),
        dv(k.shape, 7),
        lse({length, state.range(2)}, 8) {
    const int64_t block = state.range(1);
    for (int64_t i = 0; i < length; ++i) {
      const int64_t begin = block > 0 ? i / block * block : 0;
      const int64_t end = block > 0 ? std::min(length, begin + block) : block < 0 ? i + 1 : length;
      intervals.push_back(begin);
      intervals.push_back(end);
      flop += 4.0 * static_cast<double>(state.range(4) * (end - begin) * state.range(2));
    }
    segment = {BDLM_CORRUPTED, 0, 0, length};
    keys = {&k.tensor, &v.tensor, 1, &segment, intervals.data(), &dk.tensor, &dv.tensor};
  }
  void forward() {
    bdlm_attention_args args{};
    args.size = sizeof args;
    fill(args);
    backend.check(backend->attention(backend.context(), &args));
  }
  void backward() {
    bdlm_attention_backward_args args{};
    args.size = sizeof args;
    fill(args);
    args.d_o = &d_o.tensor;
    args.dq = &dq.tensor;
    backend.check(backend->attention_backward(backend.context(), &args));
  }
  void fill(auto& args) {
    args.scale = 1 / std::sqrt(static_cast<double>(q.shape[2]));
    args.q = &q.tensor;
    args.segment_count = 1;
    args.segments = &segment;
    args.key_set_count = 1;
    args.key_sets = &keys;
    args.o = &o.tensor;
    args.lse = &lse.tensor;
  }

  Backend backend;
  int64_t length;
  Tensor q, k, v, d_o, o, dq, dk, dv, lse;
  std::vector<int64_t> intervals;
  bdlm_segment segment{};
  bdlm_keys keys{};
  double flop = 0;
};

void attention_forward(benchmark::State& state) {
  Attention attention(state);
  measure<float>(state, attention.flop, [&] { attention.forward(); });
}

void attention_backward(benchmark::State& state) {
  Attention attention(state);
  attention.forward();
  measure<float>(state, 2.5 * attention.flop, [&] { attention.backward(); });
}

/// Arguments: rows, classes, channels.
void cross_entropy(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const int64_t vocab = state.range(1);
  const int64_t hidden = state.range(2);
  Tensor h({rows, hidden}, 0);
  Tensor head({vocab, hidden}, 1);
  Tensor weights({rows}, 2);
  Tensor loss({rows}, 3);
  Tensor d_h({rows, hidden}, 4);
  Tensor d_head({vocab, hidden}, 5);
  for (float& x : head.data) {
    x *= 0.02F;
  }
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < rows; ++i) {
    labels.push_back(bdlm::Philox(2).below(i, vocab));
  }
  int64_t label_shape = rows;
  const bdlm_tensor label_tensor{labels.data(), {1, 0}, 1, {0, 64, 1}, &label_shape, nullptr, 0};
  bdlm_cross_entropy_args args{};
  args.size = sizeof args;
  args.hidden = &h.tensor;
  args.head = &head.tensor;
  args.labels = &label_tensor;
  args.row_weights = &weights.tensor;
  args.softcap = static_cast<double>(state.range(3));
  args.excluded = -1;
  args.upstream = 1;
  args.row_loss = &loss.tensor;
  args.d_hidden = &d_h.tensor;
  args.d_head = &d_head.tensor;
  const Backend backend;
  measure<float>(state, 8.0 * static_cast<double>(rows * vocab * hidden),
                 [&] { backend.check(backend->cross_entropy(backend.context(), &args)); });
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

BENCHMARK(attention_forward)->Apply(shapes);
BENCHMARK(attention_backward)->Apply(shapes);
BENCHMARK(cross_entropy)
    ->ArgNames({"rows", "classes", "channels", "softcap"})
    ->Args({512, 8192, 1024, 0})
    ->Args({512, 8192, 1024, 30})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->MeasureProcessCPUTime();

}  // namespace

int main(int argc, char** argv) {
  return bdlm::run_benchmarks<float>(argc, argv);
}
