#pragma once
// One attention layer over ranks that are threads, each with an engine in its backend's memory.

#include <cstring>
#include <functional>
#include <memory>
#include <mutex>

#include "conformance/plugin/tensor_image.h"
#include "conformance/plugin/tensors.h"
#include "conformance/suites/backend_run.h"
#include "optimized/distributed/rank_engine.h"
#include "reference/parallel/thread_communicator.h"
#include "reference/schedule/interpreter.h"

namespace bdlm::distributed {

/// What a rank computes with: a context and a memory of its own.
struct RankDevice {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Memory> memory;
};

/// Throws InputError where the contract rounds partial results.
inline Formats formats_of(const Contract& c) {
  require(c.partial_o == c.accumulate && c.reduce == c.accumulate, "contract ", c.name,
          " keeps partial O in ", name(c.partial_o), " and reduces gradients in ", name(c.reduce),
          "; the engine keeps both in the format of its sums, ", name(c.accumulate));
  const auto of = [](Dtype dtype) {
    switch (dtype) {
      case Dtype::bf16:
        return Format::bf16;
      case Dtype::fp16:
        return Format::fp16;
      case Dtype::fp32:
        return Format::fp32;
      case Dtype::f64:
        break;
    }
    return Format::f64;
  };
  return {of(c.input), of(c.accumulate), of(c.lse), of(c.o), of(c.gradient)};
}

/// A rank's rows, between doubles on the host and the rank's memory.
class RankTensors {
 public:
  RankTensors(const RankDevice& device, const RowSet& rows) : device_(device), rows_(rows) {}

  Block upload(const ByStream<double>& from, int64_t width, Dtype dtype) const {
    std::vector<double> values;
    for (const Segment& segment : rows_.segments()) {
      const auto begin = from[static_cast<int>(segment.stream)].begin();
      values.insert(values.end(), begin + segment.rows.begin * width,
                    begin + segment.rows.end * width);
    }
    const std::vector<std::byte> bytes = encode_elements(values, plugin_dtype(dtype));
    Block block(*device_.memory, static_cast<int64_t>(bytes.size()));
    device_.memory->synchronize();
    const Backend& backend = *device_.backend;
    if (backend.on_host()) {
      std::memcpy(block.data(), bytes.data(), bytes.size());
    } else if (!bytes.empty()) {
      backend.check("copy_in", backend.entries().copy_in(backend.context(), block.data(),
                                                         bytes.data(), bytes.size()));
    }
    return block;
  }

  void download(const void* from, int64_t width, Dtype dtype, ByStream<double>& to) const {
    std::vector<std::byte> bytes(rows_.size() * width * size_of(dtype));
    device_.memory->synchronize();
    const Backend& backend = *device_.backend;
    if (backend.on_host()) {
      std::memcpy(bytes.data(), from, bytes.size());
    } else if (!bytes.empty()) {
      backend.check("copy_out", backend.entries().copy_out(backend.context(), bytes.data(), from,
                                                           bytes.size()));
    }
    const std::vector<double> values = decode_elements(bytes, plugin_dtype(dtype));
    auto at = values.begin();
    for (const Segment& segment : rows_.segments()) {
      const int64_t count = segment.rows.size() * width;
      std::copy(at, at + count,
                to[static_cast<int>(segment.stream)].begin() + segment.rows.begin * width);
      at += count;
    }
  }

 private:
  const RankDevice& device_;
  const RowSet& rows_;
};

/// As run_on_backend, by RankEngine. `make` is called once a rank, by its thread.
inline BackendOutcome run_on_ranks(const std::function<RankDevice()>& make, const Layer& layer,
                                   const std::vector<RankPlan>& plans,
                                   const AttentionProblem<double>& problem) {
  const int64_t q_width = layer.q_heads * layer.head_dim;
  const int64_t kv_width = layer.kv_heads * layer.head_dim;
  const auto filled = [&](int64_t width, double value) {
    const std::vector<double> x(problem.length * width, value);
    return ByStream<double>{x, x};
  };
  BackendOutcome outcome;
  AttentionOutputs& out = outcome.outputs;
  out.o = out.dq = filled(q_width, 0);
  out.lse = filled(layer.q_heads, -std::numeric_limits<double>::infinity());
  out.dk = out.dv = filled(kv_width, 0);
  outcome.logs.resize(plans.size());
  std::mutex mutex;
  run_ranks(static_cast<int>(plans.size()), [&](Communicator& communicator) {
    const RankPlan& plan = plans[communicator.rank()];
    const RankDevice device = make();
    const Contract& c = device.backend->contract();
    const RankTensors tensors(device, plan.rows);
    const Block q = tensors.upload(problem.q, q_width, c.input);
    const Block k = tensors.upload(problem.k, kv_width, c.input);
    const Block v = tensors.upload(problem.v, kv_width, c.input);
    const Block d_o = tensors.upload(problem.d_o, q_width, c.input);
    const Entries entries{&device.backend->entries(), device.backend->context(), formats_of(c)};
    RankEngine engine(entries, *device.memory, layer, plan);
    engine.load(q.data(), k.data(), v.data());
    run(plan.forward, engine, communicator);
    engine.load_gradient(d_o.data());
    run(plan.backward, engine, communicator);
    engine.finish_gradients();
    const std::lock_guard<std::mutex> lock(mutex);
    tensors.download(engine.output(), q_width, c.o, out.o);
    tensors.download(engine.lse(), layer.q_heads, c.lse, out.lse);
    tensors.download(engine.dq(), q_width, c.gradient, out.dq);
    tensors.download(engine.dk(), kv_width, c.gradient, out.dk);
    tensors.download(engine.dv(), kv_width, c.gradient, out.dv);
    outcome.logs[communicator.rank()] = communicator.log();
  });
  return outcome;
}

}  // namespace bdlm::distributed
