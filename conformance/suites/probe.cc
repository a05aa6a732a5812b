#include "conformance/suites/probe.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "conformance/judge/limits.h"
#include "conformance/suites/backend_run.h"
#include "reference/base/philox.h"
#include "reference/layout/visibility.h"

namespace bdlm {
namespace {

constexpr int max_payloads = 8;
constexpr size_t kept_faults = 4000;

/// Rows and keys of both streams, clean ones first.
struct Position {
  int stream;
  int64_t at;
};

class Probe {
 public:
  Probe(const Backend& backend, const Sequence& sequence, const LayerRule& rule,
        const std::vector<RankPlan>& plans, const AttentionShape& shape)
      : backend_(backend),
        sequence_(sequence),
        rule_(rule),
        plans_(plans),
        shape_(shape),
        length_(sequence.length()),
        seen_(2 * length_),
        keys_(2 * length_),
        held_(2 * length_) {
    for (int64_t r = 0; r < 2 * length_; ++r) {
      const auto [s, row] = position(r);
      const auto stream = static_cast<Stream>(s);
      held_[r] = std::any_of(plans.begin(), plans.end(), [&](const RankPlan& plan) {
        return plan.rows.find(stream, row) >= 0;
      });
      for (int t = 0; t < 2; ++t) {
        seen_[r][t] = visible(sequence, rule, stream, row, static_cast<Stream>(t));
        keys_[r] += seen_[r][t].size();
      }
    }
  }

  ProbeFaults run(const ProbeWindows& windows) {
    const int64_t d = shape_.head_dim;
    const int64_t half = d / 2;
    std::vector<int64_t> heads = windows.heads;
    if (heads.empty()) {
      heads.resize(shape_.q_heads);
      std::iota(heads.begin(), heads.end(), 0);
    }
    for (const int64_t head : heads) {
      for (const int64_t start : starts(windows, d)) {
        weights(start, head);
      }
      for (const int64_t start : starts(windows, half)) {
        scores(start, half, head);
      }
    }
    return std::move(out_);
  }

 private:
  Position position(int64_t index) const {
    return {index < length_ ? 0 : 1, index < length_ ? index : index - length_};
  }
  bool sees(int64_t row, int64_t key) const {
    const auto [t, at] = position(key);
    return seen_[row][t].contains(at);
  }
  std::vector<int64_t> starts(const ProbeWindows& windows, int64_t width) const {
    std::vector<int64_t> out = windows.starts;
    for (int64_t start = 0; windows.starts.empty() && start < 2 * length_; start += width) {
      out.push_back(start);
    }
    return out;
  }
  int64_t q_at(int64_t row, int64_t head) const {
    return (row * shape_.q_heads + head) * shape_.head_dim;
  }
  int64_t kv_at(int64_t key, int64_t head) const {
    return (key * shape_.kv_heads + head) * shape_.head_dim;
  }
  AttentionOutputs outputs(const AttentionProblem<double>& problem) const {
    return run_on_backend(backend_, sequence_, rule_, plans_, problem).outputs;
  }

  void judge(const char* output, int64_t row, int64_t head, int64_t key, int64_t kv_head,
             double measured, int64_t expected) {
    ++out_.pairs;
    const double rest = std::abs(measured - static_cast<double>(expected));
    if (rest < limits::probe_residual) {
      out_.residual = std::max(out_.residual, rest);
      return;
    }
    ++out_.count;
    if (by_output_[output]++ < kept_faults) {
      const auto [s, i] = position(row);
      const auto [t, j] = position(key);
      out_.faults.push_back({output, static_cast<Stream>(s), i, head, static_cast<Stream>(t), j,
                             kv_head, measured, expected});
    }
  }

  /// Keys of the row by its LSE; what it should be where that is not a number of keys.
  double count_of(const AttentionOutputs& out, int64_t row, int64_t head) {
    const auto [s, i] = position(row);
    const double z = out.lse[s][i * shape_.q_heads + head];
    return std::isfinite(z) ? std::exp(z) : static_cast<double>(keys_[row]);
  }

  /// O and z; dV.
  void weights(int64_t start, int64_t head) {
    const int64_t end = std::min(start + shape_.head_dim, 2 * length_);
    const int64_t kv = head / shape_.group();
    AttentionProblem<double> p = zero_problem(shape_, length_);
    for (int64_t x = start; x < end; ++x) {
      const auto [s, at] = position(x);
      p.v[s][kv_at(at, kv) + x - start] = 1;
      p.d_o[s][q_at(at, head) + x - start] = 1;
    }
    const AttentionOutputs out = outputs(p);
    for (int64_t row = 0; row < 2 * length_; ++row) {
      if (held_[row] == 0) {
        continue;
      }
      const auto [s, i] = position(row);
      for (int64_t h = 0; h < shape_.q_heads; ++h) {
        const double count = count_of(out, row, h);
        const double z = out.lse[s][i * shape_.q_heads + h];
        judge("LSE", row, h, row, h / shape_.group(), std::exp(z), keys_[row]);
        const double* o = &out.o[s][q_at(i, h)];
        for (int64_t key = start; key < end; ++key) {
          const bool right = h / shape_.group() == kv && sees(row, key);
          judge("O", row, h, key, kv, keys_[row] == 0 ? o[key - start] : o[key - start] * count,
                right ? 1 : 0);
        }
      }
    }
    for (int64_t row = start; row < end; ++row) {
      if (held_[row] == 0) {
        continue;
      }
      const double count = std::max(1.0, count_of(out, row, head));
      for (int64_t key = 0; key < 2 * length_; ++key) {
        const auto [t, j] = position(key);
        for (int64_t g = 0; g < shape_.kv_heads; ++g) {
          judge("dV", row, head, key, g, out.dv[t][kv_at(j, g) + row - start] * count,
                g == kv && sees(row, key) ? 1 : 0);
        }
      }
    }
  }

  /// dQ and dK.
  void scores(int64_t start, int64_t half, int64_t head) {
    const int64_t end = std::min(start + half, 2 * length_);
    const int64_t kv = head / shape_.group();
    std::vector<char> dq_seen(2 * length_ * half), dk_seen(2 * length_ * half);
    int64_t open = 1;
    for (int payload = 0; payload < max_payloads && open > 0; ++payload) {
      // Signs and sizes in [1/2, 1) of 1/64: numbers of every format.
      const Philox random(77, static_cast<uint32_t>(payload), 0);
      std::vector<double> f(2 * length_);
      for (int64_t key = 0; key < 2 * length_; ++key) {
        const int64_t r = random.below(static_cast<uint64_t>(key), 64);
        f[key] = (r % 2 == 0 ? 1 : -1) * (0.5 + static_cast<double>(r / 2) / 64);
      }
      AttentionProblem<double> p = zero_problem(shape_, length_);
      p.scale = 1;
      for (int64_t x = 0; x < 2 * length_; ++x) {
        const auto [s, at] = position(x);
        p.v[s][kv_at(at, kv)] = f[x];
        p.d_o[s][q_at(at, head)] = 1;
        if (x >= start && x < end) {
          p.q[s][q_at(at, head) + x - start] = 1;
          p.k[s][kv_at(at, kv) + half + x - start] = 1;
        }
      }
      const AttentionOutputs out = outputs(p);
      open = 0;
      for (int64_t row = 0; row < 2 * length_; ++row) {
        if (held_[row] == 0 || keys_[row] == 1) {
          continue;
        }
        const auto [s, i] = position(row);
        const double n = std::max<double>(1, static_cast<double>(keys_[row]));
        const double mean = mean_of(f, row);
        const auto shows = [&](int64_t key) {
          return std::abs(f[key] - mean) >= limits::probe_payload;
        };
        const auto read = [&](double value, int64_t key) { return value * n / (f[key] - mean); };
        for (int64_t key = start; key < end; ++key) {
          char& seen = dq_seen[row * half + key - start];
          if (seen == 0 && shows(key)) {
            seen = 1;
            for (int64_t h = 0; h < shape_.q_heads; ++h) {
              judge("dQ", row, h, key, kv, read(out.dq[s][q_at(i, h) + half + key - start], key),
                    h == head && sees(row, key) ? 1 : 0);
            }
          }
          open += seen == 0 ? 1 : 0;
        }
        for (int64_t key = 0; row >= start && row < end && key < 2 * length_; ++key) {
          char& seen = dk_seen[key * half + row - start];
          if (seen == 0 && shows(key)) {
            seen = 1;
            const auto [t, j] = position(key);
            for (int64_t g = 0; g < shape_.kv_heads; ++g) {
              judge("dK", row, head, key, g, read(out.dk[t][kv_at(j, g) + row - start], key),
                    g == kv && sees(row, key) ? 1 : 0);
            }
          }
          open += seen == 0 ? 1 : 0;
        }
      }
    }
    out_.unseen += open;
  }

  double mean_of(const std::vector<double>& f, int64_t row) const {
    double sum = 0;
    for (int t = 0; t < 2; ++t) {
      for (int64_t j = seen_[row][t].begin; j < seen_[row][t].end; ++j) {
        sum += f[t * length_ + j];
      }
    }
    return keys_[row] == 0 ? 0 : sum / static_cast<double>(keys_[row]);
  }

  const Backend& backend_;
  const Sequence& sequence_;
  const LayerRule& rule_;
  const std::vector<RankPlan>& plans_;
  AttentionShape shape_;
  int64_t length_;
  std::vector<std::array<Interval, 2>> seen_;  // (2 L) by key stream
  std::vector<int64_t> keys_;                  // (2 L)
  std::vector<char> held_;                     // (2 L)
  ProbeFaults out_;
  std::map<std::string, size_t> by_output_;
};

}  // namespace

ProbeFaults probe(const Backend& backend, const Sequence& sequence, const LayerRule& rule,
                  const std::vector<RankPlan>& plans, const AttentionShape& shape,
                  const ProbeWindows& windows) {
  return Probe(backend, sequence, rule, plans, shape).run(windows);
}

}  // namespace bdlm
