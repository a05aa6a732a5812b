#pragma once
// One attention layer of both streams, computed by a plug-in as a decomposition says.

#include <nlohmann/json.hpp>

#include "conformance/judge/attention_arrays.h"
#include "conformance/judge/contract.h"
#include "conformance/judge/decomposition.h"
#include "optimized/cuda/plugin_under_test.h"

namespace bdlm {

struct DeviceRun {
  Placement placement = Placement::contiguous;
  /// K and V that nobody sees, Q and dO of rows that see nothing, become NaN.
  bool poison_unseen = false;
  void* stream = nullptr;
};

inline Contract contract_of(const Plugin& plugin) {
  const Json json = parse_json(plugin->contract, "contract");
  return parse_contract(view(json, "contract"));
}

/// Clean rows, then corrupted rows, as one array.
inline std::vector<double> joined(const ByStream<double>& x) {
  std::vector<double> out = x[0];
  out.insert(out.end(), x[1].begin(), x[1].end());
  return out;
}
inline ByStream<double> parted(const std::vector<double>& x) {
  const auto middle = x.begin() + static_cast<int64_t>(x.size() / 2);
  return {std::vector<double>(x.begin(), middle), std::vector<double>(middle, x.end())};
}

/// The rows are all clean, then all corrupted positions; the key sets are the clean and the
/// corrupted positions; part i of the decomposition is call i, from the state of call i - 1.
class DeviceAttention {
 public:
  DeviceAttention(const Plugin& plugin, const Contract& contract,
                  const AttentionProblem<double>& problem, const Decomposition& decomposition,
                  const DeviceRun& run)
      : plugin_(plugin),
        contract_(contract),
        problem_(problem),
        run_(run),
        length_(problem.length),
        rows_(2 * problem.length) {
    const AttentionShape& s = problem.shape;
    set_intervals(decomposition);
    set_layout(decomposition.sequence);
    ByStream<double> q = problem.q, k = problem.k, v = problem.v, d_o = problem.d_o;
    if (run.poison_unseen) {
      poison_unseen(q, d_o, k, v);
    }
    q_ = upload(joined(q), rows_, s.q_heads);
    d_o_ = upload(joined(d_o), rows_, s.q_heads);
    for (int i = 0; i < 2; ++i) {
      k_[i] = upload(k[i], length_, s.kv_heads);
      v_[i] = upload(v[i], length_, s.kv_heads);
    }
    lse_ = tensor(contract.lse, rows_, s.q_heads, 0);
  }

  AttentionOutputs compute() {
    const std::vector<unsigned char> before = input_bytes();
    AttentionOutputs out;
    forward();
    out.o = parted(o_->read());
    out.lse = parted(lse_->read());
    backward(out);
    require<LogicError>(before == input_bytes(), "an input was written");
    return out;
  }

  void forward() {
    const AttentionShape& s = problem_.shape;
    const int64_t calls = static_cast<int64_t>(intervals_.size());
    std::unique_ptr<DeviceTensor> state;
    for (int64_t call = 0; call < calls; ++call) {
      const bool last = call + 1 == calls;
      std::unique_ptr<DeviceTensor> to;
      if (last || call == 0) {
        to = tensor(last ? contract_.o : contract_.partial_o, rows_, s.q_heads, s.head_dim);
      }
      std::vector<bdlm_keys> sets = key_sets(call, nullptr, nullptr);
      bdlm_attention_args args{};
      args.size = sizeof(args);
      args.layout = &layout_;
      args.scale = problem_.scale;
      args.q = q_->view();
      args.segment_count = 2;
      args.segments = segments_.data();
      args.key_set_count = static_cast<int64_t>(sets.size());
      args.key_sets = sets.data();
      args.o_state = call == 0 ? nullptr : state->view();
      args.lse_state = call == 0 ? nullptr : lse_->view();
      args.o = to ? to->view() : state->view();
      args.lse = lse_->view();
      args.stream = run_.stream;
      uint64_t bytes = 0;
      plugin_.check(plugin_->attention_workspace(plugin_.context(), &args, &bytes));
      const DeviceMemory workspace(plugin_, bytes);
      args.workspace = workspace.get();
      args.workspace_bytes = bytes;
      plugin_.check(plugin_->attention(plugin_.context(), &args));
      plugin_.check(plugin_->synchronize(plugin_.context(), run_.stream));
      if (to) {
        state = std::move(to);
      }
    }
    o_ = std::move(state);
  }

  void backward(AttentionOutputs& out) {
    const AttentionShape& s = problem_.shape;
    const int64_t calls = static_cast<int64_t>(intervals_.size());
    const Dtype partial = contract_.accumulate;
    const Dtype key_dtype = calls == 1 ? contract_.gradient : partial;
    out.dk = {std::vector<double>(problem_.k[0].size(), 0), {}};
    out.dk[1] = out.dv[0] = out.dv[1] = out.dk[0];
    std::unique_ptr<DeviceTensor>& dq = dq_;
    for (int64_t call = 0; call < calls; ++call) {
      const bool last = call + 1 == calls;
      std::unique_ptr<DeviceTensor> to;
      if (last || call == 0) {
        to = tensor(last ? contract_.gradient : partial, rows_, s.q_heads, s.head_dim);
      }
      auto& dk = dk_;
      auto& dv = dv_;
      for (int i = 0; i < 2; ++i) {
        dk[i] = tensor(key_dtype, length_, s.kv_heads, s.head_dim);
        dv[i] = tensor(key_dtype, length_, s.kv_heads, s.head_dim);
      }
      const std::vector<bdlm_keys> sets = key_sets(call, dk, dv);
      bdlm_attention_backward_args args = backward_args(sets);
      args.dq_state = call == 0 ? nullptr : dq->view();
      args.dq = to ? to->view() : dq->view();
      uint64_t bytes = 0;
      plugin_.check(plugin_->attention_backward_workspace(plugin_.context(), &args, &bytes));
      const DeviceMemory workspace(plugin_, bytes);
      args.workspace = workspace.get();
      args.workspace_bytes = bytes;
      plugin_.check(plugin_->attention_backward(plugin_.context(), &args));
      plugin_.check(plugin_->synchronize(plugin_.context(), run_.stream));
      if (to) {
        dq = std::move(to);
      }
      for (const int64_t i : sets_of(call)) {
        add(out.dk[i], dk[i]->read());
        add(out.dv[i], dv[i]->read());
      }
    }
    out.dq = parted(dq->read());
    for (auto* gradient : {&out.dk, &out.dv}) {
      for (auto& stream : *gradient) {
        for (double& x : stream) {
          x = round_to(x, contract_.gradient);
        }
      }
    }
  }

 protected:
  bdlm_attention_backward_args backward_args(const std::vector<bdlm_keys>& sets) {
    bdlm_attention_backward_args args{};
    args.size = sizeof(args);
    args.layout = &layout_;
    args.scale = problem_.scale;
    args.q = q_->view();
    args.segment_count = 2;
    args.segments = segments_.data();
    args.key_set_count = static_cast<int64_t>(sets.size());
    args.key_sets = sets.data();
    args.o = o_->view();
    args.lse = lse_->view();
    args.d_o = d_o_->view();
    args.stream = run_.stream;
    return args;
  }
  std::unique_ptr<DeviceTensor> tensor(Dtype dtype, int64_t rows, int64_t heads,
                                       int64_t channels) const {
    return std::make_unique<DeviceTensor>(plugin_, dtype, rows, heads, channels, run_.placement);
  }
  std::unique_ptr<DeviceTensor> upload(const std::vector<double>& values, int64_t rows,
                                       int64_t heads) const {
    auto out = tensor(contract_.input, rows, heads, problem_.shape.head_dim);
    out->write(values);
    return out;
  }
  std::vector<unsigned char> input_bytes() const {
    std::vector<unsigned char> all;
    for (const auto* t : {&q_, &d_o_, &k_[0], &k_[1], &v_[0], &v_[1]}) {
      const std::vector<unsigned char> bytes = (*t)->bytes();
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }

  void set_intervals(const Decomposition& decomposition) {
    int64_t calls = 1;
    for (const auto& stream : decomposition.parts) {
      for (const auto& parts : stream) {
        calls = std::max(calls, parts.empty() ? 1 : parts.back().part + 1);
      }
    }
    intervals_.assign(calls,
                      {std::vector<int64_t>(2 * rows_, 0), std::vector<int64_t>(2 * rows_, 0)});
    for (int s = 0; s < 2; ++s) {
      for (int64_t row = 0; row < length_; ++row) {
        for (const KeyPart& part : decomposition.parts[s][row]) {
          int64_t* to =
              &intervals_[part.part][static_cast<int>(part.stream)][2 * (s * length_ + row)];
          to[0] = part.keys.begin;
          to[1] = part.keys.end;
        }
      }
    }
  }
  void set_layout(const Sequence& sequence) {
    for (int64_t b = 0; b < sequence.blocks(); ++b) {
      block_start_.push_back(sequence.block(b).begin);
    }
    block_start_.push_back(sequence.length());
    document_start_ = {0, sequence.length()};
    layout_ = {length_, sequence.blocks(), block_start_.data(), 1, document_start_.data(), 0, 0, 0};
  }
  /// The sets of which some row of the call sees a key; both for call 0.
  std::vector<int64_t> sets_of(int64_t call) const {
    std::vector<int64_t> sets;
    for (int64_t i = 0; i < 2; ++i) {
      bool seen = call == 0;
      for (int64_t row = 0; row < rows_; ++row) {
        seen = seen || intervals_[call][i][2 * row] < intervals_[call][i][2 * row + 1];
      }
      if (seen) {
        sets.push_back(i);
      }
    }
    return sets;
  }
  std::vector<bdlm_keys> key_sets(int64_t call, std::unique_ptr<DeviceTensor>* dk,
                                  std::unique_ptr<DeviceTensor>* dv) {
    std::vector<bdlm_keys> sets;
    for (const int64_t i : sets_of(call)) {
      sets.push_back({k_[i]->view(), v_[i]->view(), 1, &segments_[i], intervals_[call][i].data(),
                      dk == nullptr ? nullptr : dk[i]->view(),
                      dv == nullptr ? nullptr : dv[i]->view()});
    }
    return sets;
  }
  void poison_unseen(ByStream<double>& q, ByStream<double>& d_o, ByStream<double>& k,
                     ByStream<double>& v) const {
    const AttentionShape& s = problem_.shape;
    ByStream<char> seen{std::vector<char>(length_, 0), std::vector<char>(length_, 0)};
    std::vector<char> sees(rows_, 0);
    for (const auto& call : intervals_) {
      for (int i = 0; i < 2; ++i) {
        for (int64_t row = 0; row < rows_; ++row) {
          for (int64_t j = call[i][2 * row]; j < call[i][2 * row + 1]; ++j) {
            seen[i][j] = sees[row] = 1;
          }
        }
      }
    }
    const auto fill = [](std::vector<double>& x, int64_t row, int64_t width) {
      std::fill_n(x.begin() + row * width, width, std::numeric_limits<double>::quiet_NaN());
    };
    for (int i = 0; i < 2; ++i) {
      for (int64_t row = 0; row < length_; ++row) {
        if (seen[i][row] == 0) {
          fill(k[i], row, s.kv_heads * s.head_dim);
          fill(v[i], row, s.kv_heads * s.head_dim);
        }
        if (sees[i * length_ + row] == 0) {
          fill(q[i], row, s.q_heads * s.head_dim);
          fill(d_o[i], row, s.q_heads * s.head_dim);
        }
      }
    }
  }
  static void add(std::vector<double>& to, const std::vector<double>& x) {
    for (size_t i = 0; i < to.size(); ++i) {
      to[i] += x[i];
    }
  }

  const Plugin& plugin_;
  const Contract& contract_;
  const AttentionProblem<double>& problem_;
  DeviceRun run_;
  int64_t length_, rows_;
  std::vector<std::array<std::vector<int64_t>, 2>> intervals_;  // [call][set], (R, 2)
  std::vector<int64_t> block_start_, document_start_;
  bdlm_layout layout_{};
  std::array<bdlm_segment, 2> segments_{
      {{BDLM_CLEAN, 0, 0, length_}, {BDLM_CORRUPTED, 0, 0, length_}}};
  std::unique_ptr<DeviceTensor> q_, d_o_, k_[2], v_[2], lse_, o_, dq_, dk_[2], dv_[2];
};

}  // namespace bdlm
