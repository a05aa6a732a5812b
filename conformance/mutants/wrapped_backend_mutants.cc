#include <cmath>
#include <cstring>

#include "conformance/mutants/backend_mutants.h"
#include "conformance/mutants/tensor_access.h"

namespace bdlm {
namespace {

/// Multiplies every element, as the tensor's format has it.
void scale_all(const bdlm_tensor* tensor, double factor) {
  const TensorAccess x(tensor);
  for_each_element(
      *tensor, [&](int64_t a, int64_t b, int64_t c) { x.set(factor * x.get(a, b, c), a, b, c); });
}

class ScaledKeys : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  bdlm_status attention_backward(void* context, const bdlm_attention_backward_args& args) override {
    const bdlm_status status = ForwardingBackend::attention_backward(context, args);
    for (int64_t s = 0; s < args.key_set_count && status == BDLM_OK; ++s) {
      scale_all(args.key_sets[s].dk, 1.01);
    }
    return status;
  }
};

/// The largest element of the last row's O is 5 % too large.
class OneElement : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  bdlm_status attention(void* context, const bdlm_attention_args& args) override {
    const bdlm_status status = ForwardingBackend::attention(context, args);
    if (status == BDLM_OK) {
      const TensorAccess o(args.o);
      const int64_t row = o.size(0) - 1;
      int64_t head = 0, channel = 0;
      for_each_element(*args.o, [&](int64_t a, int64_t b, int64_t c) {
        if (a == row && std::abs(o.get(a, b, c)) > std::abs(o.get(row, head, channel))) {
          head = b;
          channel = c;
        }
      });
      o.set(1.05 * o.get(row, head, channel), row, head, channel);
    }
    return status;
  }
};

/// Rows beyond the last multiple of 8 are copies of the row before.
class TailRow : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  bdlm_status attention(void* context, const bdlm_attention_args& args) override {
    const bdlm_status status = ForwardingBackend::attention(context, args);
    const TensorAccess o(args.o);
    const int64_t row = o.size(0) - 1;
    if (status == BDLM_OK && row > 0 && o.size(0) % 8 != 0) {
      for (int64_t h = 0; h < o.size(1); ++h) {
        for (int64_t c = 0; c < o.size(2); ++c) {
          o.set(o.get(row - 1, h, c), row, h, c);
        }
      }
    }
    return status;
  }
};

/// The bits of some elements, to be put back: they have never been written.
class Kept {
 public:
  Kept(const bdlm_tensor* tensor, int64_t first_row) : tensor_(tensor), first_(first_row) {
    visit([&](unsigned char* at, size_t size) { bytes_.insert(bytes_.end(), at, at + size); });
  }
  void restore() {
    size_t from = 0;
    visit([&](unsigned char* at, size_t size) {
      std::memcpy(at, bytes_.data() + from, size);
      from += size;
    });
  }

 private:
  template <class F>
  void visit(const F& f) const {
    const int64_t size = tensor_->dtype.bits / 8;
    for_each_element(*tensor_, [&](int64_t a, int64_t b, int64_t c) {
      const int64_t index[3] = {a, b, c};
      int64_t offset = 0, contiguous = 1;
      for (int axis = tensor_->ndim - 1; axis >= 0; --axis) {
        offset += index[axis] * (tensor_->strides == nullptr ? contiguous : tensor_->strides[axis]);
        contiguous *= tensor_->shape[axis];
      }
      if (a >= first_) {
        f(static_cast<unsigned char*>(tensor_->data) + tensor_->byte_offset + offset * size,
          static_cast<size_t>(size));
      }
    });
  }

  const bdlm_tensor* tensor_;
  int64_t first_;
  std::vector<unsigned char> bytes_;
};

class Unwritten : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  bdlm_status attention(void* context, const bdlm_attention_args& args) override {
    Kept last(args.lse, args.lse->shape[0] - 1);
    const bdlm_status status = ForwardingBackend::attention(context, args);
    last.restore();
    return status;
  }
};

/// Writes one element between rows.
class PaddingWritten : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  bdlm_status attention(void* context, const bdlm_attention_args& args) override {
    const bdlm_status status = ForwardingBackend::attention(context, args);
    const bdlm_tensor& o = *args.o;
    const int64_t width = o.shape[1] * o.shape[2];
    if (o.strides != nullptr && o.strides[0] > width && o.shape[0] > 1) {
      auto* row = static_cast<unsigned char*>(o.data) + o.byte_offset;
      row[width * (o.dtype.bits / 8)] ^= 1;
    }
    return status;
  }
};

/// A thread overwrites a row's LSE with the larger one while others still read it.
class RacingMerge : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  bdlm_status merge(void* context, const bdlm_merge_args& args) override {
    const bool in_place = args.o->data == args.o_a->data;
    const TensorAccess a(args.lse_a), b(args.lse_b), z(args.lse);
    const int64_t row = z.size(0) - 1;
    const double larger = std::max(a.get(row, 0), b.get(row, 0));
    const bdlm_status status = ForwardingBackend::merge(context, args);
    if (in_place && status == BDLM_OK) {
      z.set(larger, row, 0);
    }
    return status;
  }
};

/// All work goes to the default stream: what is asked for on another one is not there when that
/// one is done.
class DefaultStream : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  bool has_streams() const override { return true; }
  bdlm_status create_stream(void* /*context*/, void** stream) override {
    *stream = this;
    return BDLM_OK;
  }
  void destroy_stream(void* /*context*/, void* /*stream*/) override {}
  bdlm_status synchronize(void* /*context*/, void* /*stream*/) override { return BDLM_OK; }
  bdlm_status delay(void* /*context*/, void* stream, int64_t /*microseconds*/) override {
    busy_ = busy_ || stream == nullptr;
    return BDLM_OK;
  }
  bdlm_status attention(void* context, const bdlm_attention_args& args) override {
    bdlm_attention_args mine = args;
    mine.stream = nullptr;
    Kept o(args.o, 0), lse(args.lse, 0);
    const bdlm_status status = ForwardingBackend::attention(context, mine);
    if (busy_ && args.stream != nullptr) {
      o.restore();
      lse.restore();
    }
    busy_ = false;
    return status;
  }

 private:
  bool busy_ = false;
};

/// Says OK to anything that the right one refuses.
class NeverRefuses : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  bdlm_status attention(void* context, const bdlm_attention_args& args) override {
    ForwardingBackend::attention(context, args);
    return BDLM_OK;
  }
};

template <class Object>
BackendMutant wrapped(const std::string& name, const std::string& kind, const std::string& what,
                      const std::string& tier, const std::string& cases) {
  return {name, kind, what, tier, cases, [=](const bdlm_backend& right) -> const bdlm_backend& {
            return entries_of(name, std::make_unique<Object>(right));
          }};
}

}  // namespace

std::vector<BackendMutant> wrapped_backend_mutants() {
  return {
      wrapped<ScaledKeys>("dk-times-1.01", "scale", "dK is 1 % too large", "T4", "*gauss*"),
      wrapped<OneElement>("one-element-5-percent", "single element",
                          "one element of O is 5 % too large", "T4", "*gauss*"),
      wrapped<TailRow>("tail-row-copied", "uneven tail",
                       "the last row beyond a multiple of 8 is a copy of the one before", "T4",
                       "*gauss*"),
      wrapped<Unwritten>("output-unwritten", "unwritten output",
                         "the last row of the LSE is not written", "T6", "determinism*"),
      wrapped<PaddingWritten>("padding-written", "stray write",
                              "a byte between rows of O is written", "T6", "hygiene*padded*"),
      wrapped<RacingMerge>("in-place-merge-race", "race",
                           "a merge in place reads a row's LSE after it was overwritten", "T4",
                           "merge-*"),
      wrapped<DefaultStream>("wrong-stream", "stream order",
                             "work goes to the default stream instead of the caller's", "T6",
                             "stream*"),
      wrapped<NeverRefuses>("errors-hidden", "error returns",
                            "wrong arguments are answered with BDLM_OK", "T6", "invalid*"),
  };
}

}  // namespace bdlm
