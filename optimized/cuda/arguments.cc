#include "optimized/cuda/arguments.h"

#include <cmath>
#include <limits>

#include "optimized/cuda/failure.h"

namespace bdlm::cuda {
namespace {

constexpr int64_t most_channels = 512;
constexpr int64_t most_heads = 65535;
/// Tiles are rounded up from this and stay below 2^31.
constexpr int64_t most_rows = std::numeric_limits<int32_t>::max() - 1024;

Element element_of(const char* what, const bdlm_dtype& dtype, uint32_t accepted) {
  const auto is = [&](int code, int bits) {
    return dtype.code == code && dtype.bits == bits && dtype.lanes == 1;
  };
  Element element{};
  if (is(4, 16)) {
    element = Element::bf16;
  } else if (is(2, 32)) {
    element = Element::fp32;
  } else if (is(2, 64)) {
    element = Element::f64;
  } else {
    throw InputError(join(what, " has elements of code ", int{dtype.code}, " and ", int{dtype.bits},
                          " bits; known are bf16, fp32 and f64"));
  }
  static constexpr const char* names[] = {"bf16", "fp32", "f64"};
  if ((formats({element}) & accepted) == 0) {
    std::string allowed;
    for (int e = 0; e < 3; ++e) {
      if ((accepted >> e & 1) != 0) {
        allowed += join(allowed.empty() ? "" : " or ", names[e]);
      }
    }
    throw InputError(
        join(what, " is ", names[static_cast<int>(element)], "; it has to be ", allowed));
  }
  return element;
}

int64_t stride_of(const bdlm_tensor& tensor, int axis) {
  if (tensor.strides != nullptr) {
    return tensor.strides[axis];
  }
  int64_t stride = 1;
  for (int a = tensor.ndim - 1; a > axis; --a) {
    stride *= tensor.shape[a];
  }
  return stride;
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += join(i == 0 ? "" : ", ", shape[i]);
  }
  return text + ")";
}

void check_tensor(const char* what, const bdlm_tensor* tensor, std::span<const int64_t> shape,
                  Pointers pointers) {
  require(tensor != nullptr, what, " is missing");
  const std::span<const int64_t> given(tensor->shape, static_cast<size_t>(tensor->ndim));
  require(std::equal(given.begin(), given.end(), shape.begin(), shape.end()), what, " has shape ",
          shape_text(given), "; it has to be ", shape_text(shape));
  require(tensor->device.type == 2 && tensor->device.id == 0, what, " is on device ",
          tensor->device.type, ':', tensor->device.id, "; it has to be on 2:0, the first GPU");
  int64_t elements = 1;
  for (const int64_t n : shape) {
    elements *= n;
  }
  const int last = tensor->ndim - 1;
  require(shape[last] <= 1 || stride_of(*tensor, last) == 1, what, " has a last stride of ",
          stride_of(*tensor, last), "; it has to be 1");
  require(pointers == Pointers::ignored || elements == 0 || tensor->data != nullptr, what,
          " has no data");
}

void* data_of(const bdlm_tensor& tensor) {
  return tensor.data == nullptr ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset;
}

}  // namespace

HeadRows head_rows(const char* what, const bdlm_tensor* tensor, int64_t rows, int64_t heads,
                   int64_t channels, uint32_t accepted, Pointers pointers) {
  const int64_t shape[] = {rows, heads, channels};
  check_tensor(what, tensor, shape, pointers);
  return {data_of(*tensor), stride_of(*tensor, 0), stride_of(*tensor, 1),
          element_of(what, tensor->dtype, accepted)};
}

RowNumbers row_numbers(const char* what, const bdlm_tensor* tensor, int64_t rows, int64_t heads,
                       uint32_t accepted, Pointers pointers) {
  const int64_t shape[] = {rows, heads};
  check_tensor(what, tensor, shape, pointers);
  return {data_of(*tensor), stride_of(*tensor, 0), element_of(what, tensor->dtype, accepted)};
}

namespace {

/// Whether every row of the tensor starts at a multiple of 16 bytes.
bool is_vectorised(const HeadRows& t) {
  const int64_t bytes = t.element == Element::bf16 ? 2 : t.element == Element::fp32 ? 4 : 8;
  return reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && t.row_stride * bytes % 16 == 0 &&
         t.head_stride * bytes % 16 == 0;
}

/// Shapes, scale, queries and key sets: what forward and backward share.
template <class Args>
Problem read_common(const Args& args, const AcceptedFormats& accepted, Pointers pointers) {
  require(args.size >= sizeof(Args), "the arguments have a size of ", args.size, "; at least ",
          sizeof(Args), " is needed");
  require(args.q != nullptr && args.q->ndim == 3 && args.q->shape != nullptr,
          "q is missing, or has no three axes");
  const int64_t rows = args.q->shape[0];
  const int64_t q_heads = args.q->shape[1];
  const int64_t channels = args.q->shape[2];
  require(rows >= 0 && q_heads >= 1 && channels >= 1, "q has shape ",
          shape_text({args.q->shape, 3}), "; heads and channels have to be at least 1");
  require(std::isfinite(args.scale), "the scale is ", args.scale, "; it has to be finite");
  require(args.key_set_count >= 0 && args.key_set_count <= 2, "there are ", args.key_set_count,
          " key sets; allowed are 0 to 2");
  require(args.key_set_count == 0 || args.key_sets != nullptr, "the key sets are missing");
  require<UnsupportedError>(channels <= most_channels, "there are ", channels,
                            " channels; supported are 1 to ", most_channels);
  require<UnsupportedError>(rows <= most_rows && q_heads <= most_heads, "q has ", rows,
                            " rows and ", q_heads, " heads; supported are up to ", most_rows,
                            " and ", most_heads);
  Problem p;
  p.rows = rows;
  p.q_heads = static_cast<int32_t>(q_heads);
  p.kv_heads = p.q_heads;
  p.head_dim = static_cast<int32_t>(channels);
  p.scale = args.scale;
  p.q = head_rows("q", args.q, rows, q_heads, channels, accepted.input, pointers);
  p.vector_loads = channels % 8 == 0 && is_vectorised(p.q);
  p.set_count = static_cast<int32_t>(args.key_set_count);
  for (int s = 0; s < p.set_count; ++s) {
    const bdlm_keys& from = args.key_sets[s];
    KeySet& to = p.sets[s];
    require(from.k != nullptr && from.k->ndim == 3 && from.k->shape != nullptr,
            "k is missing, or has no three axes");
    const int64_t kv_heads = from.k->shape[1];
    require(kv_heads >= 1 && q_heads % kv_heads == 0, "there are ", q_heads, " query heads and ",
            kv_heads, " KV heads; query heads have to be a multiple of KV heads");
    require(s == 0 || kv_heads == p.kv_heads, "the key sets have ", p.kv_heads, " and ", kv_heads,
            " KV heads; they have to be equal");
    p.kv_heads = static_cast<int32_t>(kv_heads);
    to.keys = from.k->shape[0];
    require<UnsupportedError>(to.keys <= most_rows, "there are ", to.keys,
                              " keys; supported are up to ", most_rows);
    to.k = head_rows("k", from.k, to.keys, kv_heads, channels, accepted.input, pointers);
    to.v = head_rows("v", from.v, to.keys, kv_heads, channels, accepted.input, pointers);
    p.vector_loads = p.vector_loads && is_vectorised(to.k) && is_vectorised(to.v);
    require(from.intervals != nullptr || rows == 0 || pointers == Pointers::ignored,
            "the intervals of a key set are missing");
  }
  return p;
}

}  // namespace

Problem read_forward(const bdlm_attention_args& args, const AcceptedFormats& accepted,
                     Pointers pointers) {
  Problem p = read_common(args, accepted, pointers);
  const auto heads = [&](const char* what, const bdlm_tensor* tensor, uint32_t allowed) {
    return head_rows(what, tensor, p.rows, p.q_heads, p.head_dim, allowed, pointers);
  };
  const auto numbers = [&](const char* what, const bdlm_tensor* tensor) {
    return row_numbers(what, tensor, p.rows, p.q_heads, accepted.lse, pointers);
  };
  require((args.o_state == nullptr) == (args.lse_state == nullptr),
          "a state is o_state with lse_state, but only one of them is given");
  if (args.o_state != nullptr) {
    p.o_state = heads("o_state", args.o_state, accepted.partial_o);
    p.lse_state = numbers("lse_state", args.lse_state);
  }
  p.o = heads("o", args.o, accepted.o);
  p.lse = numbers("lse", args.lse);
  return p;
}

Problem read_backward(const bdlm_attention_backward_args& args, const AcceptedFormats& accepted,
                      Pointers pointers) {
  Problem p = read_common(args, accepted, pointers);
  const auto heads = [&](const char* what, const bdlm_tensor* tensor, uint32_t allowed) {
    return head_rows(what, tensor, p.rows, p.q_heads, p.head_dim, allowed, pointers);
  };
  p.o = heads("o", args.o, accepted.saved_o);
  p.lse = row_numbers("lse", args.lse, p.rows, p.q_heads, accepted.lse, pointers);
  p.d_o = heads("d_o", args.d_o, accepted.input);
  p.vector_loads = p.vector_loads && is_vectorised(p.d_o);
  if (args.dq_state != nullptr) {
    p.dq_state = heads("dq_state", args.dq_state, accepted.gradient_state);
  }
  p.dq = heads("dq", args.dq, accepted.gradient);
  for (int s = 0; s < p.set_count; ++s) {
    KeySet& set = p.sets[s];
    set.dk = head_rows("dk", args.key_sets[s].dk, set.keys, p.kv_heads, p.head_dim,
                       accepted.gradient, pointers);
    set.dv = head_rows("dv", args.key_sets[s].dv, set.keys, p.kv_heads, p.head_dim,
                       accepted.gradient, pointers);
  }
  return p;
}

std::vector<const int64_t*> intervals_of(int64_t set_count, const bdlm_keys* sets) {
  std::vector<const int64_t*> intervals;
  for (int64_t s = 0; s < set_count; ++s) {
    intervals.push_back(sets[s].intervals);
  }
  return intervals;
}

MergeProblem read_merge(const bdlm_merge_args& args, const AcceptedFormats& accepted) {
  require(args.size >= sizeof(args), "the arguments have a size of ", args.size, "; at least ",
          sizeof(args), " is needed");
  require(args.o != nullptr && args.o->ndim == 3 && args.o->shape != nullptr,
          "o is missing, or has no three axes");
  const std::span<const int64_t> shape(args.o->shape, 3);
  require<UnsupportedError>(
      shape[0] <= most_rows && shape[1] <= most_heads && shape[2] <= most_rows, "o has shape ",
      shape_text(shape), "; supported are up to ", most_rows, " rows and ", most_heads, " heads");
  MergeProblem p;
  p.rows = shape[0];
  p.heads = static_cast<int32_t>(shape[1]);
  p.head_dim = static_cast<int32_t>(shape[2]);
  const auto heads = [&](const char* what, const bdlm_tensor* tensor) {
    return head_rows(what, tensor, shape[0], shape[1], shape[2], accepted.partial_o,
                     Pointers::required);
  };
  const auto numbers = [&](const char* what, const bdlm_tensor* tensor) {
    return row_numbers(what, tensor, shape[0], shape[1], accepted.lse, Pointers::required);
  };
  p.o_a = heads("o_a", args.o_a);
  p.o_b = heads("o_b", args.o_b);
  p.o = heads("o", args.o);
  p.lse_a = numbers("lse_a", args.lse_a);
  p.lse_b = numbers("lse_b", args.lse_b);
  p.lse = numbers("lse", args.lse);
  return p;
}

void require_workspace(const void* workspace, uint64_t bytes, uint64_t needed) {
  require(bytes >= needed, "the workspace has ", bytes, " bytes; ", needed, " are needed");
  require(
      needed == 0 || (workspace != nullptr && reinterpret_cast<uintptr_t>(workspace) % 256 == 0),
      "the workspace is missing, or not aligned to 256 bytes");
}

}  // namespace bdlm::cuda
