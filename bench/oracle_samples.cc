// Judges an oracle in double on shapes that are too long for a CPU, by samples: O, LSE and dQ of
// some rows, and dK and dV of some keys given the oracle's own LSE and O of all rows. The first KV
// head and its query heads.
//
//   oracle_samples --oracle=bdlm_cuda_f64.so --shapes=bench/attention_long_shapes.json
//   [--samples=64]
//
// Prints, and writes as JSON where --out=FILE is given, the largest error of each output over its
// bound, u A (16 + 4 S + chain): A is the sum of the absolute terms of the element, S the largest
// sum of absolute terms of a score met, chain the number of terms. Exit status 1 where one
// exceeds 1.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "bench/attention_problem_on_device.h"
#include "reference/base/philox.h"
#include "reference/base/special_values.h"

namespace bdlm {
namespace {

constexpr double u = 0x1p-53;

/// Rows (n, heads, D) of one tensor of the first group of heads, as DeviceInputs makes them.
class HostRows {
 public:
  HostRows(const BenchShape& shape, uint32_t tensor, int64_t rows, int64_t heads, int64_t all_heads)
      : heads_(heads), d_(shape.head_dim), values_(rows * heads * shape.head_dim) {
    const Philox random(1, tensor);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < heads * d_; ++i) {
        const double x = random.gaussian(row * all_heads * d_ + i);
        values_[row * heads * d_ + i] = static_cast<float>(round_to(x, Dtype::bf16));
      }
    }
  }
  const float* at(int64_t row, int64_t head) const {
    return &values_[(row * heads_ + head) * d_];
  }

 private:
  int64_t heads_, d_;
  std::vector<float> values_;
};

struct Dot {
  double value = 0, size = 0;
};
Dot dot(const float* a, const float* b, int64_t n) {
  Dot x;
  for (int64_t c = 0; c < n; ++c) {
    const double term = double{a[c]} * b[c];  // exact
    x.value += term;
    x.size += std::abs(term);
  }
  return x;
}

/// The largest error over its bound; NaN counts as infinity.
class Worst {
 public:
  void take(double got, double want, double bound) {
    const double off = std::abs(got - want);
    const double share = off == 0 ? 0 : std::isfinite(off) && bound > 0 ? off / bound : infinity;
    double seen = share_.load();
    while (share > seen && !share_.compare_exchange_weak(seen, share)) {
    }
  }
  double share() const { return share_.load(); }

 private:
  std::atomic<double> share_{0};
};

class Samples {
 public:
  Samples(const Plugin& oracle, const BenchShape& shape, int64_t samples)
      : shape_(shape),
        group_(shape.q_heads / shape.kv_heads),
        d_(shape.head_dim),
        scale_(1 / std::sqrt(static_cast<double>(shape.head_dim))),
        intervals_(bench_intervals(shape)),
        q_(shape, 0, shape.rows(), group_, shape.q_heads),
        d_o_(shape, 1, shape.rows(), group_, shape.q_heads) {
    for (int64_t s = 0; s < shape.streams(); ++s) {
      k_.emplace_back(shape, static_cast<uint32_t>(2 + 2 * s), shape.length, 1, shape.kv_heads);
      v_.emplace_back(shape, static_cast<uint32_t>(3 + 2 * s), shape.length, 1, shape.kv_heads);
    }
    compute(oracle);
    const std::vector<int64_t> rows = spread(shape.rows(), samples);
    const std::vector<int64_t> keys = spread(shape.length, samples);
#pragma omp parallel for schedule(dynamic, 1)
    for (size_t i = 0; i < rows.size(); ++i) {
      for (int64_t head = 0; head < group_; ++head) {
        judge_row(rows[i], head);
      }
    }
#pragma omp parallel for schedule(dynamic, 1)
    for (size_t i = 0; i < keys.size(); ++i) {
      for (int64_t s = 0; s < shape_.streams(); ++s) {
        judge_key(s, keys[i]);
      }
    }
    judged_ = static_cast<int64_t>(rows.size()) * group_;
  }

  std::map<std::string, double> shares() const {
    return {{"O", o_worst_.share()},
            {"LSE", lse_worst_.share()},
            {"dQ", dq_worst_.share()},
            {"dK", dk_worst_.share()},
            {"dV", dv_worst_.share()}};
  }
  int64_t judged_rows() const {
    return judged_;
  }

 private:
  /// The first, the last, those beside the middle, and others in between.
  static std::vector<int64_t> spread(int64_t count, int64_t samples) {
    std::vector<int64_t> out{0, count / 2 - 1, count / 2, count - 1};
    const Philox random(7, 0);
    for (int64_t i = 4; i < samples; ++i) {
      const double x = std::abs(random.gaussian(i));
      out.push_back(static_cast<int64_t>(x * 1e9) % count);
    }
    for (int64_t& x : out) {
      x = std::clamp<int64_t>(x, 0, count - 1);
    }
    return out;
  }

  void compute(const Plugin& oracle) {
    const DeviceInputs inputs(oracle, shape_, 1);
    DeviceCalls calls(oracle, shape_, inputs, intervals_, DeviceCalls::Heads::first_group,
                      Dtype::f64, Dtype::f64);
    calls.forward();
    calls.backward();
    calls.synchronize();
    int64_t streams = 0;
    for (NamedOutput& out : calls.outputs()) {
      if (out.name == "dK" || out.name == "dV") {
        got_[out.name + std::to_string(streams++ / 2)] = std::move(out.values);
      } else {
        got_[out.name] = std::move(out.values);
      }
    }
  }

  /// The keys of every stream that a row sees.
  template <class Visit>
  void each_key(int64_t row, const Visit& visit) const {
    for (int64_t s = 0; s < shape_.streams(); ++s) {
      for (int64_t j = intervals_[s][2 * row]; j < intervals_[s][2 * row + 1]; ++j) {
        visit(k_[s].at(j, 0), v_[s].at(j, 0));
      }
    }
  }

  double bound(double terms, double score_size, double chain) const {
    return u * terms * (16 + 4 * score_size + chain);
  }

  void judge_row(int64_t row, int64_t head) {
    const float* q = q_.at(row, head);
    const float* d_o = d_o_.at(row, head);
    std::vector<double> scores, dp, dp_size;
    double most = -infinity;
    double largest = 0;
    each_key(row, [&](const float* k, const float* v) {
      const Dot s = dot(q, k, d_);
      scores.push_back(scale_ * s.value);
      most = std::max(most, scores.back());
      largest = std::max(largest, scale_ * s.size);
      const Dot p = dot(d_o, v, d_);
      dp.push_back(p.value);
      dp_size.push_back(p.size);
    });
    long double sum = 0;
    for (const double s : scores) {
      sum += std::exp(s - most);
    }
    const double z = most + static_cast<double>(std::log(sum));
    const auto chain = static_cast<double>(scores.size() + d_);
    std::vector<long double> o(d_), o_size(d_), dq(d_), dq_size(d_);
    long double delta = 0;
    long double delta_size = 0;
    size_t j = 0;
    each_key(row, [&](const float*, const float* v) {
      const double p = std::exp(scores[j] - z);
      delta += p * dp[j];
      delta_size += p * dp_size[j];
      for (int64_t c = 0; c < d_; ++c) {
        o[c] += p * v[c];
        o_size[c] += p * std::abs(v[c]);
      }
      ++j;
    });
    j = 0;
    each_key(row, [&](const float* k, const float*) {
      const double p = scale_ * std::exp(scores[j] - z);
      const auto ds = p * (dp[j] - static_cast<double>(delta));
      const auto size = p * (dp_size[j] + static_cast<double>(delta_size));
      for (int64_t c = 0; c < d_; ++c) {
        dq[c] += ds * k[c];
        dq_size[c] += size * std::abs(k[c]);
      }
      ++j;
    });
    const int64_t at = row * group_ + head;
    lse_worst_.take(got_.at("LSE")[at], z, bound(1, largest, chain));
    for (int64_t c = 0; c < d_; ++c) {
      const int64_t e = at * d_ + c;
      o_worst_.take(got_.at("O")[e], static_cast<double>(o[c]),
                    bound(static_cast<double>(o_size[c]), largest, chain));
      dq_worst_.take(got_.at("dQ")[e], static_cast<double>(dq[c]),
                     bound(static_cast<double>(dq_size[c]), largest, chain));
    }
  }

  void judge_key(int64_t stream, int64_t key) {
    const float* k = k_[stream].at(key, 0);
    const float* v = v_[stream].at(key, 0);
    std::vector<long double> dk(d_), dk_size(d_), dv(d_), dv_size(d_);
    double largest = 0;
    double terms = static_cast<double>(d_);
    for (int64_t row = 0; row < shape_.rows(); ++row) {
      const int64_t begin = intervals_[stream][2 * row];
      if (key < begin || key >= intervals_[stream][2 * row + 1]) {
        continue;
      }
      for (int64_t head = 0; head < group_; ++head) {
        const float* q = q_.at(row, head);
        const float* d_o = d_o_.at(row, head);
        const double* o = &got_.at("O")[(row * group_ + head) * d_];
        const Dot s = dot(q, k, d_);
        const Dot dp = dot(d_o, v, d_);
        double delta = 0;
        double delta_size = 0;
        for (int64_t c = 0; c < d_; ++c) {
          delta += d_o[c] * o[c];
          delta_size += std::abs(d_o[c] * o[c]);
        }
        const double p = std::exp(scale_ * s.value - got_.at("LSE")[row * group_ + head]);
        largest = std::max(largest, scale_ * s.size);
        terms += 1;
        for (int64_t c = 0; c < d_; ++c) {
          dv[c] += p * d_o[c];
          dv_size[c] += p * std::abs(d_o[c]);
          dk[c] += scale_ * p * (dp.value - delta) * q[c];
          dk_size[c] += scale_ * p * (dp.size + delta_size) * std::abs(q[c]);
        }
      }
    }
    const std::string number = std::to_string(stream);
    for (int64_t c = 0; c < d_; ++c) {
      const int64_t e = key * d_ + c;
      dk_worst_.take(got_.at("dK" + number)[e], static_cast<double>(dk[c]),
                     bound(static_cast<double>(dk_size[c]), largest, terms));
      dv_worst_.take(got_.at("dV" + number)[e], static_cast<double>(dv[c]),
                     bound(static_cast<double>(dv_size[c]), largest, terms));
    }
  }

  const BenchShape shape_;
  int64_t group_, d_;
  double scale_;
  std::vector<std::vector<int64_t>> intervals_;
  HostRows q_, d_o_;
  std::vector<HostRows> k_, v_;  // by stream
  std::map<std::string, std::vector<double>> got_;
  Worst o_worst_, lse_worst_, dq_worst_, dk_worst_, dv_worst_;
  int64_t judged_ = 0;
};

/// "--name=value", or `otherwise`.
std::string option(int argc, char** argv, const std::string& name, const std::string& otherwise) {
  const std::string start = "--" + name + "=";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with(start)) {
      return argument.substr(start.size());
    }
  }
  return otherwise;
}

int run(int argc, char** argv) {
  const std::string path = option(argc, argv, "oracle", "");
  const std::string shapes = option(argc, argv, "shapes", "");
  require(!path.empty() && !shapes.empty(), "--oracle=FILE and --shapes=FILE are needed");
  const int64_t samples = std::stoll(option(argc, argv, "samples", "64"));
  require(samples >= 4, "--samples is ", samples, "; at least 4 are taken");
  Plugin oracle(path);
  const std::vector<BenchShape> all = read_shapes(shapes);
  if (!oracle.start()) {
    std::fprintf(stderr, "skipped: there is no device\n");
    return 77;
  }
  nlohmann::ordered_json rows = nlohmann::json::array();
  bool right = true;
  for (const BenchShape& shape : all) {
    const Samples judged(oracle, shape, samples);
    nlohmann::ordered_json row{{"name", shape.name}, {"rows", judged.judged_rows()}};
    std::printf("%-36s %lld rows and heads, err/bound:", shape.name.c_str(),
                static_cast<long long>(judged.judged_rows()));
    bool good = true;
    for (const auto& [output, share] : judged.shares()) {
      std::printf("  %s %.2g", output.c_str(), share);
      row["err_over_bound_" + output] = share;
      good = good && share <= 1;
    }
    row["verdict"] = good ? "PASS" : "FAIL";
    std::printf("  %s\n", good ? "PASS" : "FAIL");
    std::fflush(stdout);
    right = right && good;
    rows.push_back(std::move(row));
    if (const std::string out = option(argc, argv, "out", ""); !out.empty()) {
      std::ofstream file(out);
      file << nlohmann::ordered_json{{"about", oracle->about}, {"rows", rows}}.dump(1) << '\n';
      require<FileError>(file.good(), "cannot write ", out);
    }
  }
  return right ? 0 : 1;
}

}  // namespace
}  // namespace bdlm

int main(int argc, char** argv) {
  try {
    return bdlm::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "oracle_samples: %s\n", error.what());
    return 2;
  }
}
