// Times attention of a plug-in on the shapes of a file. Before a shape is timed, the plug-in's
// outputs of the first KV head and its query heads are judged against those of an oracle in double,
// with the bounds that the oracle derives from the plug-in's contract. A table says how far they
// are by class of rows (row_class.h).
//
//   bench_attention --plugin=bdlm_cuda.so --oracle=bdlm_cuda_f64.so
//   --shapes=bench/attention_shapes.json
//
// TFLOP/s count allowed pairs: 4 D pairs Hq forward, 2.5 times that backward. A time is the median
// of 20 samples; short calls are queued three at a time.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/attention_problem_on_device.h"
#include "bench/output_distance.h"
#include "bench/row_class.h"
#include "conformance/judge/contract.h"
#include "conformance/report/verdict.h"
#include "optimized/cuda/error_model_test.h"

namespace bdlm {
namespace {

constexpr int samples = 20;
/// A call beyond this is timed alone; before it, three hide the host's share of the work.
constexpr double long_call_seconds = 0.02;
/// In the names of counters by class of rows: rms_z_by_class.O.block_0. bench/peers/join.py reads
/// them.
constexpr const char* by_class = "_by_class.";

/// As the judge does for Gaussian data; an LSE has its bound alone.
Verdict verdict_on(const std::string& tensor, const Distance& d) {
  if (!(d.err_over_h <= 1)) {
    return Verdict::fail;
  }
  if (tensor == "LSE") {
    return Verdict::pass;
  }
  const double noise =
      limits::noise_pass + limits::noise_samples / std::sqrt(static_cast<double>(d.elements));
  if (d.max_z > limits::outlier_fail || d.rms_z > limits::noise_fail) {
    return Verdict::fail;
  }
  return d.max_z > limits::outlier_marginal || d.rms_z > noise ? Verdict::marginal : Verdict::pass;
}

struct Programs {
  const Plugin* plugin;
  const Plugin* oracle;
  Contract contract;  ///< of the plug-in
};

/// A shape on the device, verified.
class Bench {
 public:
  Bench(const Programs& programs, const BenchShape& shape)
      : programs_(programs),
        shape_(shape),
        intervals_(bench_intervals(shape)),
        flop_(4.0 * static_cast<double>(shape.head_dim * shape.q_heads) * pairs_of(intervals_)),
        inputs_(*programs.plugin, shape, 1),
        calls_(*programs.plugin, shape, inputs_, intervals_, DeviceCalls::Heads::all, Dtype::bf16,
               Dtype::fp32) {
    verify();
    calls_.forward();
    calls_.synchronize();
  }

  double flop() const { return flop_; }
  DeviceCalls& calls() { return calls_; }
  const std::map<std::string, Distance>& distances() const { return distances_; }
  /// Of O, dQ, dK and dV; the streams of the latter together.
  const std::map<std::string, ClassSums>& classes() const { return classes_; }
  Verdict verdict() const { return verdict_; }

 private:
  void verify() {
    using Heads = DeviceCalls::Heads;
    DeviceCalls got(*programs_.plugin, shape_, inputs_, intervals_, Heads::first_group, Dtype::bf16,
                    Dtype::fp32);
    DeviceCalls want(*programs_.oracle, shape_, inputs_, intervals_, Heads::first_group, Dtype::f64,
                     Dtype::f64);
    for (DeviceCalls* calls : {&got, &want}) {
      calls->forward();
      calls->backward();
      calls->synchronize();
    }
    const auto x = got.outputs();
    const auto y = want.bounded_outputs(error_model_of(programs_.contract, shape_.head_dim, 0));
    const std::vector<RowClass> queries = query_classes(shape_);
    const std::vector<RowClass> keys = key_classes(shape_);
    for (size_t i = 0; i < x.size(); ++i) {
      const bool of_keys = x[i].name == "dK" || x[i].name == "dV";
      const ClassSums sums = class_sums(x[i].values, y[i], of_keys ? keys : queries);
      if (x[i].name != "LSE") {
        classes_[x[i].name] += sums;
      }
      const Distance d = total(sums).distance();
      verdict_ = std::max(verdict_, verdict_on(x[i].name, d));
      Distance& worst = distances_[x[i].name];
      if (!(d.err_over_h <= worst.err_over_h)) {
        worst = d;
      }
    }
    std::fprintf(stderr, "%s\n%s", shape_.name.c_str(), class_table(classes_).c_str());
  }

  const Programs programs_;
  const BenchShape shape_;
  std::vector<std::vector<int64_t>> intervals_;
  double flop_;
  DeviceInputs inputs_;
  DeviceCalls calls_;
  std::map<std::string, Distance> distances_;
  std::map<std::string, ClassSums> classes_;
  Verdict verdict_ = Verdict::pass;
};

double seconds_of(int calls, DeviceCalls& device, const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) {
    call();
  }
  device.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / calls;
}

/// The shape that is on the device; none before the first.
struct Current {
  std::string name;
  std::unique_ptr<Bench> bench;
};

void count_distances(benchmark::State& state, const Bench& bench) {
  for (const auto& [tensor, d] : bench.distances()) {
    state.counters["distance_" + tensor] = d.relative;
    state.counters["err_over_h_" + tensor] = d.err_over_h;
    state.counters["max_z_" + tensor] = d.max_z;
    state.counters["rms_z_" + tensor] = d.rms_z;
  }
  for (const auto& [tensor, sums] : bench.classes()) {
    for (int c = 0; c < row_class_count; ++c) {
      if (sums[c].elements > 0) {
        const Distance d = sums[c].distance();
        const std::string place = join(by_class, tensor, '.', name(static_cast<RowClass>(c)));
        state.counters["rms_z" + place] = d.rms_z;
        state.counters["err_over_h" + place] = d.err_over_h;
      }
    }
  }
}

void time_attention(benchmark::State& state, const Programs& programs, Current& current,
                    const BenchShape& shape, bool backward) {
  std::unique_ptr<Bench>& bench = current.bench;
  if (current.name != shape.name) {
    bench.reset();
    bench = std::make_unique<Bench>(programs, shape);
    current.name = shape.name;
  }
  count_distances(state, *bench);
  state.SetLabel(std::string(name(bench->verdict())));
  if (bench->verdict() == Verdict::fail) {
    state.SkipWithError("FAIL: outputs are too far from the oracle's");
    return;
  }
  DeviceCalls& calls = bench->calls();
  const auto call = [&] { backward ? calls.backward() : calls.forward(); };
  seconds_of(1, calls, call);
  const int at_a_time = seconds_of(1, calls, call) > long_call_seconds ? 1 : 3;
  std::vector<double> times;
  for (auto _ : state) {
    times.push_back(seconds_of(at_a_time, calls, call));
    state.SetIterationTime(times.back());
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  state.counters["median_ms"] = 1e3 * median;
  state.counters["tflops"] = 1e-12 * (backward ? 2.5 : 1) * bench->flop() / median;
}

/// The usual one, without the counters by class: the table has them.
class ShortConsole : public benchmark::ConsoleReporter {
 public:
  ShortConsole() : ConsoleReporter(OO_None) {}
  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<Run> shown = runs;
    for (Run& run : shown) {
      std::erase_if(run.counters,
                    [](const auto& c) { return c.first.find(by_class) != std::string::npos; });
    }
    ConsoleReporter::ReportRuns(shown);
  }
};

/// Takes "--name=value" out of the arguments; the rest is Google Benchmark's.
std::string take_option(int& argc, char** argv, const std::string& name) {
  const std::string start = "--" + name + "=";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with(start)) {
      std::copy(argv + i + 1, argv + argc, argv + i);
      --argc;
      return argument.substr(start.size());
    }
  }
  throw InputError(join("the option --", name, "=FILE is missing"));
}

int run(int argc, char** argv) {
  Plugin plugin(take_option(argc, argv, "plugin"));
  Plugin oracle(take_option(argc, argv, "oracle"));
  const std::vector<BenchShape> shapes = read_shapes(take_option(argc, argv, "shapes"));
  if (!plugin.start() || !oracle.start()) {
    std::fprintf(stderr, "skipped: there is no device\n");
    return 77;
  }
  const bool other_format = std::any_of(argv, argv + argc, [](const std::string& argument) {
    return argument.starts_with("--benchmark_format=");
  });
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  benchmark::AddCustomContext("backend", plugin->name);
  benchmark::AddCustomContext("about", plugin->about);
  benchmark::AddCustomContext("contract", plugin->contract);
  const Json contract = parse_json(plugin->contract, "contract");
  const Programs programs{&plugin, &oracle, parse_contract(view(contract, "contract"))};
  Current current;
  for (const BenchShape& shape : shapes) {
    for (const bool backward : {false, true}) {
      benchmark::RegisterBenchmark((shape.name + (backward ? "/backward" : "/forward")).c_str(),
                                   [&programs, &current, shape, backward](benchmark::State& state) {
                                     time_attention(state, programs, current, shape, backward);
                                   })
          ->Iterations(samples)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
  ShortConsole console;
  benchmark::RunSpecifiedBenchmarks(other_format ? nullptr : &console);
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace bdlm

int main(int argc, char** argv) {
  try {
    return bdlm::run(argc, argv);
  } catch (const bdlm::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
