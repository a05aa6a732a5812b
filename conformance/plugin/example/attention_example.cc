// A whole plug-in, to put one's own kernels into: attention and the LSE merge in plain fp32 loops.
//   g++ -std=c++17 -O2 -shared -fPIC -I<its folder> attention_example.cc -o libexample.so
//   bdlm verify --backend ./libexample.so
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "bdlm_plugin.h"

// A tensor (rows, heads, channels) or (rows, heads) of fp32. Strides are in elements.
struct View {
  float* data = nullptr;
  int64_t rows = 0, heads = 1, channels = 1, row_stride = 0;

  explicit View(const bdlm_tensor* t) {
    if (t != nullptr) {
      data = reinterpret_cast<float*>(static_cast<char*>(t->data) + t->byte_offset);
      rows = t->shape[0], heads = t->shape[1], channels = t->ndim == 3 ? t->shape[2] : 1;
      row_stride = t->strides != nullptr ? t->strides[0] : heads * channels;
    }
  }
  // Head i % heads of row i / heads; NULL where there is no tensor.
  float* at(int64_t i) const {
    return data == nullptr ? nullptr : data + i / heads * row_stride + i % heads * channels;
  }
};

static float dot(const float* a, const float* b, int64_t n) {
  return std::inner_product(a, a + n, b, 0.0f);
}
static void add(float factor, const float* x, float* to, int64_t n) {
  std::transform(x, x + n, to, to, [=](float a, float b) { return b + factor * a; });
}

// visit(k, v, dk, dv) with each key that one query head of a row sees; i as in View::at.
template <class Args, class Visit>
static void each_key(const Args* args, int64_t i, int64_t q_heads, const Visit& visit) {
  const int64_t row = i / q_heads, head = i % q_heads;
  for (const bdlm_keys* s = args->key_sets; s != args->key_sets + args->key_set_count; ++s) {
    const View k(s->k), v(s->v), dk(s->dk), dv(s->dv);
    for (int64_t j = s->intervals[2 * row]; j < s->intervals[2 * row + 1]; ++j) {
      const int64_t at = j * k.heads + head / (q_heads / k.heads);
      visit(k.at(at), v.at(at), dk.at(at), dv.at(at));
    }
  }
}

// Arguments that no call may have.
template <class Args>
static bool refused(const Args* args) {
  const int64_t sets = args->key_set_count, n = args->q->shape[2];
  return args->size != sizeof(Args) || sets < 0 || sets > 2 ||
         std::any_of(args->key_sets, args->key_sets + sets, [&](const bdlm_keys& s) {
           return s.k == nullptr || s.v == nullptr || s.k->shape[2] != n || s.v->shape[2] != n ||
                  s.k->shape[1] < 1 || args->q->shape[1] % s.k->shape[1] != 0;
         });
}

// (o, z) = merge((o1, z1), (o2, z2)); o may be o1 or o2. A side that is empty is not read.
static void merge_row(const float* o1, float z1, const float* o2, float z2, float* o, float* z,
                      int64_t n) {
  if (z1 < z2)
    return merge_row(o2, z2, o1, z1, o, z, n);
  const bool wrong = std::isnan(z1) || std::isnan(z2) || z1 == INFINITY;
  const float w = std::exp(z2 - z1), l = 1 + w;
  for (int64_t c = 0; c < n; ++c) {
    o[c] = wrong             ? NAN
           : z1 == -INFINITY ? 0
           : z2 == -INFINITY ? o1[c]
                             : o1[c] / l + (w / l) * o2[c];
  }
  *z = wrong ? NAN : z2 == -INFINITY ? z1 : z1 + std::log1p(w);
}
static bdlm_status merge(void*, const bdlm_merge_args* args) {
  const View oa(args->o_a), za(args->lse_a), ob(args->o_b), zb(args->lse_b);
  const View o(args->o), z(args->lse);
  for (int64_t i = 0; i < o.rows * o.heads; ++i)
    merge_row(oa.at(i), *za.at(i), ob.at(i), *zb.at(i), o.at(i), z.at(i), o.channels);
  return BDLM_OK;
}
static bdlm_status attention(void*, const bdlm_attention_args* args) {
  if (refused(args))
    return BDLM_INVALID;
  const View q(args->q), o(args->o), z(args->lse), o_state(args->o_state), z_state(args->lse_state);
  const float scale = static_cast<float>(args->scale);
  const int64_t n = q.channels;
  for (int64_t i = 0; i < q.rows * q.heads; ++i) {
    float largest = -INFINITY, l = 0;
    each_key(args, i, q.heads, [&](const float* k, const float*, float*, float*) {
      largest = std::fmax(largest, scale * dot(q.at(i), k, n));
    });
    std::vector<float> sum(n);
    each_key(args, i, q.heads, [&](const float* k, const float* v, float*, float*) {
      const float p = std::exp(scale * dot(q.at(i), k, n) - largest);
      l += p;
      add(p, v, sum.data(), n);
    });
    std::for_each(sum.begin(), sum.end(), [&](float& x) { x /= l; });
    const float own_z = l == 0 ? -INFINITY : largest + std::log(l);
    const float state_z = z_state.data == nullptr ? -INFINITY : *z_state.at(i);
    merge_row(sum.data(), own_z, o_state.at(i), state_z, o.at(i), z.at(i), n);
  }
  return BDLM_OK;
}
static bdlm_status attention_backward(void*, const bdlm_attention_backward_args* args) {
  if (refused(args))
    return BDLM_INVALID;
  const View q(args->q), o(args->o), z(args->lse), d_o(args->d_o);
  const View state(args->dq_state), dq(args->dq);
  const float scale = static_cast<float>(args->scale);
  const int64_t n = q.channels;
  for (const bdlm_keys* s = args->key_sets; s != args->key_sets + args->key_set_count; ++s) {
    for (const View& d : {View(s->dk), View(s->dv)})
      for (int64_t i = 0; i < d.rows * d.heads; ++i)
        std::fill_n(d.at(i), n, 0.0f);
  }
  std::vector<float> sum(n);
  for (int64_t i = 0; i < q.rows * q.heads; ++i) {
    state.data == nullptr ? sum.assign(n, 0) : sum.assign(state.at(i), state.at(i) + n);
    const float delta = dot(d_o.at(i), o.at(i), n), lse = *z.at(i);
    each_key(args, i, q.heads, [&](const float* k, const float* v, float* dk, float* dv) {
      const float p = lse == -INFINITY ? 0 : std::exp(scale * dot(q.at(i), k, n) - lse);
      const float ds = scale * p * (dot(d_o.at(i), v, n) - delta);
      add(ds, k, sum.data(), n);
      add(ds, q.at(i), dk, n);
      add(p, d_o.at(i), dv, n);
    });
    std::copy(sum.begin(), sum.end(), dq.at(i));
  }
  return BDLM_OK;
}

extern "C" const bdlm_backend* bdlm_plugin(void) {
  static bdlm_backend b = {};  // what is not set here stays NULL: the backend does not have it
  b.version = BDLM_PLUGIN_VERSION;
  b.size = sizeof(bdlm_backend);
  b.name = "example";
  b.about = "plain fp32 loops on the host";
  b.contract = R"({"name": "example-fp32", "input": "fp32", "accumulate": "fp32", "p": "fp32",
    "ds": "fp32", "o": "fp32", "partial_o": "fp32", "lse": "fp32", "gradient": "fp32",
    "reduce": "fp32", "reduce_order": "fixed"})";
  b.device = {1, 0};
  b.last_error = [](void*) { return "the arguments do not fit together"; };
  b.attention = attention;
  b.attention_backward = attention_backward;
  b.merge = merge;
  return &b;
}
