#pragma once
// Calls a backend through the plug-in interface, for tests: tensors with gaps between their rows,
// attention layers divided over several calls and ranks.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "conformance/judge/attention_arrays.h"
#include "conformance/judge/decomposition.h"
#include "conformance/plugin/bdlm_plugin.h"
#include "reference/base/small_float.h"

namespace bdlm::test {

inline constexpr bdlm_dtype fp32{2, 32, 1};
inline constexpr bdlm_dtype bf16{4, 16, 1};

/// A host tensor whose last axis is contiguous; elsewhere there is a gap of `gap` elements after
/// each row, filled with NaN, which no one may write to.
class HostTensor {
 public:
  HostTensor(bdlm_dtype dtype, std::vector<int64_t> shape, int64_t gap = 0)
      : shape_(std::move(shape)), strides_(shape_.size(), 1) {
    int64_t size = 1;
    for (size_t axis = shape_.size(); axis-- > 0;) {
      strides_[axis] = size;
      size = size * shape_[axis] + (axis + 1 == shape_.size() ? gap : 0);
    }
    if (dtype.bits == 16) {
      halves_.assign(size, round_to_bf16(std::numeric_limits<double>::quiet_NaN()));
    } else {
      floats_.assign(size, std::numeric_limits<float>::quiet_NaN());
    }
    tensor_ = {nullptr,         {1, 0}, static_cast<int32_t>(shape_.size()), dtype, shape_.data(),
               strides_.data(), 0};
  }
  HostTensor(const HostTensor&) = delete;
  HostTensor& operator=(const HostTensor&) = delete;

  bdlm_tensor* get() {
    tensor_.data = tensor_.dtype.bits == 16 ? static_cast<void*>(halves_.data()) : floats_.data();
    return &tensor_;
  }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t count() const {
    int64_t n = 1;
    for (const int64_t extent : shape_) {
      n *= extent;
    }
    return n;
  }
  double at(int64_t i) const {
    const int64_t k = place(i);
    return tensor_.dtype.bits == 16 ? bf16_value(halves_[k]) : floats_[k];
  }
  void set(int64_t i, double x) {
    const int64_t k = place(i);
    if (tensor_.dtype.bits == 16) {
      halves_[k] = round_to_bf16(x);
    } else {
      floats_[k] = static_cast<float>(x);
    }
  }
  void fill(const std::vector<double>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      set(static_cast<int64_t>(i), values[i]);
    }
  }
  /// The bits of storage, gaps included.
  std::vector<uint32_t> bits() const {
    std::vector<uint32_t> out(halves_.begin(), halves_.end());
    for (const float x : floats_) {
      out.push_back(std::bit_cast<uint32_t>(x));
    }
    return out;
  }
  /// Whether every gap still holds its NaN.
  bool gaps_untouched() const {
    const int64_t last = shape_.back();
    const int64_t size = static_cast<int64_t>(halves_.size() + floats_.size());
    const int64_t pitch = shape_.size() > 1 ? strides_[shape_.size() - 2] : size;
    for (int64_t k = 0; k < size; ++k) {
      const double x = halves_.empty() ? floats_[k] : bf16_value(halves_[k]);
      if (k % pitch >= last && x == x) {
        return false;
      }
    }
    return true;
  }

 private:
  /// Storage index of element i, counted row-major.
  int64_t place(int64_t i) const {
    int64_t k = 0;
    for (size_t axis = shape_.size(); axis-- > 0;) {
      k += i % shape_[axis] * strides_[axis];
      i /= shape_[axis];
    }
    return k;
  }

  std::vector<int64_t> shape_, strides_;
  std::vector<float> floats_;
  std::vector<uint16_t> halves_;
  bdlm_tensor tensor_{};
};

/// A backend with a context.
class Driver {
 public:
  explicit Driver(const bdlm_backend* backend) : backend_(backend) {
    BOOST_REQUIRE(backend_->create(&context_) == BDLM_OK);
  }
  ~Driver() { backend_->destroy(context_); }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  const bdlm_backend& operator*() const { return *backend_; }
  const bdlm_backend* operator->() const { return backend_; }
  void* context() const { return context_; }
  std::string error() const { return backend_->last_error(context_); }
  void expect_ok(bdlm_status status) const {
    BOOST_REQUIRE_MESSAGE(status == BDLM_OK, "status " << status << ": " << error());
  }

 private:
  const bdlm_backend* backend_;
  void* context_ = nullptr;
};

/// Values of rows of one stream as (rows, width).
inline std::vector<double> rows_of(const std::vector<double>& tensor,
                                   const std::vector<int64_t>& rows, int64_t width) {
  std::vector<double> out;
  for (const int64_t row : rows) {
    out.insert(out.end(), tensor.begin() + row * width, tensor.begin() + (row + 1) * width);
  }
  return out;
}

/// One attention layer under a decomposition: every rank's rows of one stream by themselves, a call
/// for every part; partial results in fp32; ranks' dK and dV added by rank, in float.
class LayerRun {
 public:
  LayerRun(const Driver& driver, bdlm_dtype storage, const AttentionProblem<double>& problem,
           const Decomposition& decomposition)
      : driver_(driver),
        storage_(storage),
        p_(problem),
        decomposition_(decomposition),
        q_width_(problem.shape.q_heads * problem.shape.head_dim),
        kv_width_(problem.shape.kv_heads * problem.shape.head_dim) {}

  AttentionOutputs run() {
    for (int s = 0; s < 2; ++s) {
      out_.o[s].assign(p_.length * q_width_, 0);
      out_.dq[s].assign(p_.length * q_width_, 0);
      out_.lse[s].assign(p_.length * p_.shape.q_heads, -std::numeric_limits<double>::infinity());
      dk_[s].assign(p_.length * kv_width_, 0);
      dv_[s].assign(p_.length * kv_width_, 0);
    }
    for (int rank = 0; rank < decomposition_.ranks; ++rank) {
      for (int s = 0; s < 2; ++s) {
        run_rows(rank, static_cast<Stream>(s));
      }
    }
    for (int s = 0; s < 2; ++s) {
      for (size_t i = 0; i < dk_[s].size(); ++i) {
        const bool half = storage_.bits == 16;
        out_.dk[s].push_back(half ? bf16_value(round_to_bf16(dk_[s][i])) : dk_[s][i]);
        out_.dv[s].push_back(half ? bf16_value(round_to_bf16(dv_[s][i])) : dv_[s][i]);
      }
    }
    return out_;
  }

 private:
  /// The keys of one call in one stream, and where they come from.
  struct Keys {
    std::unique_ptr<HostTensor> k, v, dk, dv;
    std::vector<int64_t> intervals;
    bdlm_segment segment{};
  };

  void run_rows(int rank, Stream stream) {
    const int s = static_cast<int>(stream);
    std::vector<int64_t> rows;
    int64_t parts = 1;
    for (int64_t row = 0; row < p_.length; ++row) {
      if (decomposition_.row_rank[s][row] == rank) {
        rows.push_back(row);
        for (const KeyPart& part : decomposition_.parts_of(stream, row)) {
          parts = std::max(parts, part.part + 1);
        }
      }
    }
    if (rows.empty()) {
      return;
    }
    const auto count = static_cast<int64_t>(rows.size());
    const AttentionShape& shape = p_.shape;
    std::vector<bdlm_segment> segments;
    for (const int64_t row : rows) {
      segments.push_back({static_cast<int32_t>(s), 0, row, 1});
    }
    const std::vector<int64_t> q_shape{count, shape.q_heads, shape.head_dim};
    HostTensor q(storage_, q_shape, 3);
    HostTensor d_o(storage_, q_shape, 1);
    q.fill(rows_of(p_.q[s], rows, q_width_));
    HostTensor o(storage_, q_shape, 5);
    HostTensor partial_o(fp32, q_shape);
    HostTensor lse(fp32, {count, shape.q_heads}, 2);
    for (int64_t part = 0; part < parts; ++part) {
      std::vector<Keys> keys = keys_of(stream, rows, part, false);
      std::vector<bdlm_keys> sets = key_sets(keys);
      bdlm_attention_args args{};
      args.size = sizeof args;
      args.scale = p_.scale;
      args.q = q.get();
      args.segment_count = count;
      args.segments = segments.data();
      args.key_set_count = static_cast<int64_t>(sets.size());
      args.key_sets = sets.data();
      args.o_state = part > 0 ? partial_o.get() : nullptr;
      args.lse_state = part > 0 ? lse.get() : nullptr;
      args.o = part + 1 == parts ? o.get() : partial_o.get();
      args.lse = lse.get();
      driver_.expect_ok(driver_->attention(driver_.context(), &args));
    }
    BOOST_TEST((o.gaps_untouched() && lse.gaps_untouched()));
    scatter(o, rows, q_width_, out_.o[s]);
    scatter(lse, rows, shape.q_heads, out_.lse[s]);
    if (p_.d_o[s].empty()) {
      return;
    }

    d_o.fill(rows_of(p_.d_o[s], rows, q_width_));
    HostTensor dq(storage_, q_shape, 2);
    HostTensor partial_dq(fp32, q_shape);
    for (int64_t part = parts; part-- > 0;) {
      std::vector<Keys> keys = keys_of(stream, rows, part, true);
      std::vector<bdlm_keys> sets = key_sets(keys);
      bdlm_attention_backward_args args{};
      args.size = sizeof args;
      args.scale = p_.scale;
      args.q = q.get();
      args.segment_count = count;
      args.segments = segments.data();
      args.key_set_count = static_cast<int64_t>(sets.size());
      args.key_sets = sets.data();
      args.o = o.get();
      args.lse = lse.get();
      args.d_o = d_o.get();
      args.dq_state = part + 1 < parts ? partial_dq.get() : nullptr;
      args.dq = part == 0 ? dq.get() : partial_dq.get();
      driver_.expect_ok(driver_->attention_backward(driver_.context(), &args));
      for (const Keys& set : keys) {
        const int k = set.segment.stream;
        BOOST_TEST((set.dk->gaps_untouched() && set.dv->gaps_untouched()));
        for (int64_t i = 0; i < p_.length * kv_width_; ++i) {
          dk_[k][i] += static_cast<float>(set.dk->at(i));
          dv_[k][i] += static_cast<float>(set.dv->at(i));
        }
      }
    }
    BOOST_TEST(dq.gaps_untouched());
    scatter(dq, rows, q_width_, out_.dq[s]);
  }

  /// The key sets of a part: whole streams, of which the intervals pick what the part sees.
  std::vector<Keys> keys_of(Stream query, const std::vector<int64_t>& rows, int64_t part,
                            bool backward) const {
    std::vector<Keys> out;
    for (int k = 0; k < 2; ++k) {
      Keys set;
      bool any = false;
      for (const int64_t row : rows) {
        Interval seen{0, 0};
        for (const KeyPart& piece : decomposition_.parts_of(query, row)) {
          if (piece.part == part && static_cast<int>(piece.stream) == k) {
            seen = piece.keys;
          }
        }
        any = any || !seen.empty();
        set.intervals.push_back(seen.begin);
        set.intervals.push_back(seen.end);
      }
      if (!any) {
        continue;
      }
      const std::vector<int64_t> shape{p_.length, p_.shape.kv_heads, p_.shape.head_dim};
      set.segment = {k, 0, 0, p_.length};
      set.k = std::make_unique<HostTensor>(storage_, shape, 1);
      set.v = std::make_unique<HostTensor>(storage_, shape, 4);
      set.k->fill(p_.k[k]);
      set.v->fill(p_.v[k]);
      if (backward) {
        set.dk = std::make_unique<HostTensor>(fp32, shape, 2);
        set.dv = std::make_unique<HostTensor>(fp32, shape);
      }
      out.push_back(std::move(set));
    }
    return out;
  }

  static std::vector<bdlm_keys> key_sets(std::vector<Keys>& keys) {
    std::vector<bdlm_keys> out;
    for (Keys& set : keys) {
      out.push_back({set.k->get(), set.v->get(), 1, &set.segment, set.intervals.data(),
                     set.dk ? set.dk->get() : nullptr, set.dv ? set.dv->get() : nullptr});
    }
    return out;
  }

  static void scatter(const HostTensor& from, const std::vector<int64_t>& rows, int64_t width,
                      std::vector<double>& to) {
    for (size_t r = 0; r < rows.size(); ++r) {
      for (int64_t c = 0; c < width; ++c) {
        to[rows[r] * width + c] = from.at(static_cast<int64_t>(r) * width + c);
      }
    }
  }

  const Driver& driver_;
  bdlm_dtype storage_;
  const AttentionProblem<double>& p_;
  const Decomposition& decomposition_;
  int64_t q_width_, kv_width_;
  ByStream<float> dk_, dv_;
  AttentionOutputs out_;
};

}  // namespace bdlm::test
