/* How a backend is called: its kernels behind one versioned struct of function pointers.
 *
 * A plug-in is a shared library that exports
 *
 *   const bdlm_backend* bdlm_plugin(void);
 *
 * This header is plain C and needs nothing else of the project. Version 0: it may still change.
 *
 * Rules for every entry
 * - The caller owns all memory. Outputs are written where the caller says, completely, and nothing
 *   else is: inputs, padding between rows and bytes outside a tensor keep their values.
 * - Tensors live where `bdlm_backend.device` says. Arrays that are not bdlm_tensor (intervals,
 *   segments, offsets, labels' counts) are host memory.
 * - Work may be asynchronous on `stream`, the backend's own notion of one (a cudaStream_t, or
 * NULL). Host arrays may go as soon as the entry returns; tensors stay until `synchronize(stream)`.
 * - An entry that is NULL is UNSUPPORTED. An entry that cannot do one case returns BDLM_UNSUPPORTED
 *   and writes nothing. There is no silent fallback.
 * - Entries of one context are not called from two threads at a time, unless they belong to
 *   different contexts.
 * - The numbers: int64_t for every count and offset. Logarithms are natural. */
#ifndef BDLM_PLUGIN_H
#define BDLM_PLUGIN_H

#include <stdint.h>

/* NOLINTBEGIN(readability-identifier-naming): names of C */
#ifdef __cplusplus
extern "C" {
#endif

#define BDLM_PLUGIN_VERSION 0

typedef enum bdlm_status {
  BDLM_OK = 0,
  BDLM_UNSUPPORTED = 1, /* this case is not implemented; nothing was written */
  BDLM_INVALID = 2,     /* an argument is wrong; `last_error` says which */
  BDLM_OUT_OF_MEMORY = 3,
  BDLM_COMMUNICATION = 4,      /* a peer is lost, late, or disagrees */
  BDLM_FAILED = 5,             /* anything else; `last_error` says what */
  BDLM_STATUS_INT = 0x7fffffff /* no status: keeps the type an int */
} bdlm_status;

/* ---- Tensors: bit for bit DLPack's DLTensor, so that a cast is enough. ---- */

typedef struct bdlm_device {
  int32_t type; /* 1 host, 2 CUDA, as in DLPack */
  int32_t id;
} bdlm_device;

typedef struct bdlm_dtype {
  uint8_t code; /* 0 signed integer, 2 IEEE float, 4 bfloat */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} bdlm_dtype;

typedef struct bdlm_tensor {
  void* data;
  bdlm_device device;
  int32_t ndim;
  bdlm_dtype dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL: contiguous, last axis fastest. The last stride is 1 */
  uint64_t byte_offset;
} bdlm_tensor;

/* ---- Which rows there are, and what they see ---- */

enum { BDLM_CLEAN = 0, BDLM_CORRUPTED = 1 };
enum { BDLM_BLOCK_CAUSAL = 0, BDLM_TOKEN_CAUSAL = 1 };

/* Rows of one stream at consecutive positions [first, first + count). */
typedef struct bdlm_segment {
  int32_t stream; /* BDLM_CLEAN or BDLM_CORRUPTED */
  int32_t reserved;
  int64_t first;
  int64_t count;
} bdlm_segment;

/* The sequence and the mask of a layer, from which every interval follows. For kernels that build
 * the mask from structure instead of reading intervals. A corrupted row of block [s, e) in document
 * d sees the corrupted keys [s, e) and the clean keys [d, s), or under a window w the clean keys
 * [max(d, s - (w - 1)), s). A clean row i sees the clean keys [d, n), or [max(d, i + 1 - w), n),
 * with n = e (block-causal) or i + 1 (token-causal). Positions from document_start[documents] on
 * are padding: they see nothing and nothing sees them. */
typedef struct bdlm_layout {
  int64_t length; /* positions, padding included; all of it is at the end */
  int64_t blocks;
  const int64_t* block_start; /* (blocks + 1) */
  int64_t documents;
  const int64_t* document_start; /* (documents + 1) */
  int64_t window;                /* 0: full */
  int32_t clean_rule;            /* BDLM_BLOCK_CAUSAL or BDLM_TOKEN_CAUSAL */
  int32_t reserved;
} bdlm_layout;

/* A set of N keys, all of one stream, in the order of their positions. Row i of the call's queries
 * sees the stored keys [intervals[2 i], intervals[2 i + 1]) of the set, none where the two are
 * equal. The intervals rule; they may leave out keys that the layout allows (another call has
 * them), and never add any. */
typedef struct bdlm_keys {
  const bdlm_tensor* k; /* (N, Hkv, D), the contract's "input" */
  const bdlm_tensor* v; /* (N, Hkv, D), the contract's "input" */
  int64_t segment_count;
  const bdlm_segment* segments; /* which positions the N rows are */
  const int64_t* intervals;     /* (R, 2) */
  bdlm_tensor* dk;              /* backward: (N, Hkv, D), overwritten */
  bdlm_tensor* dv;              /* backward: (N, Hkv, D), overwritten */
} bdlm_keys;

/* ---- Attention ---- */

/* Forward of R query rows on up to two key sets, added to a state.
 *
 *   S = scale q.k,  z = log sum exp(S),  O = sum exp(S - z) v
 *   (o, lse) = merge((o_state, lse_state), (O, z));  without a state (o, lse) = (O, z)
 *
 * Query head h reads KV head h / (Hq / Hkv). A row that sees nothing leaves the state as it is;
 * without a state it is (0, -inf). merge: see bdlm_merge_args. `o` has the contract's "o", or its
 * "partial_o" where another call will continue from it; all LSEs have the contract's "lse". */
typedef struct bdlm_attention_args {
  uint64_t size; /* sizeof(bdlm_attention_args) */
  const bdlm_layout* layout;
  double scale;
  const bdlm_tensor* q; /* (R, Hq, D), the contract's "input" */
  int64_t segment_count;
  const bdlm_segment* segments; /* which positions the R rows are */
  int64_t key_set_count;        /* 0 to 2, each stream at most once */
  const bdlm_keys* key_sets;
  const bdlm_tensor* o_state;   /* (R, Hq, D), "partial_o"; NULL: none. May be the same as o */
  const bdlm_tensor* lse_state; /* (R, Hq); NULL: none. May be the same as lse */
  bdlm_tensor* o;               /* (R, Hq, D) */
  bdlm_tensor* lse;             /* (R, Hq) */
  void* workspace; /* as many bytes as `attention_workspace` said, 256-byte aligned; may be NULL */
  uint64_t workspace_bytes;
  void* stream;
} bdlm_attention_args;

/* Backward of the pairs of up to two key sets, from the merged O and LSE of all of a row's keys.
 *
 *   P = exp(S - z), delta = sum(d_o o), dS = P (d_o.v - delta)
 *   dq = dq_state + scale dS k,  dk = scale dS^T q,  dv = P^T d_o
 *
 * P is 0 where a row does not see a key and where z = -inf. dK and dV are sums over the query heads
 * that read the KV head and over the rows of this call. dq has the contract's "gradient", or fp32
 * (f64 where the contract accumulates in f64) where another call will continue from it; so have
 * dk and dv. */
typedef struct bdlm_attention_backward_args {
  uint64_t size; /* sizeof(bdlm_attention_backward_args) */
  const bdlm_layout* layout;
  double scale;
  const bdlm_tensor* q; /* (R, Hq, D) */
  int64_t segment_count;
  const bdlm_segment* segments;
  int64_t key_set_count;
  const bdlm_keys* key_sets;
  const bdlm_tensor* o;        /* (R, Hq, D), "o": merged over all key sets */
  const bdlm_tensor* lse;      /* (R, Hq): merged */
  const bdlm_tensor* d_o;      /* (R, Hq, D), "input" */
  const bdlm_tensor* dq_state; /* (R, Hq, D), fp32 or f64; NULL: 0. May be the same as dq */
  bdlm_tensor* dq;             /* (R, Hq, D) */
  void* workspace;
  uint64_t workspace_bytes;
  void* stream;
} bdlm_attention_backward_args;

/* Merge of two states over disjoint keys, row by row. With z1 >= z2 after ordering:
 *
 *   w = exp(z2 - z1), l = 1 + w, o = o1 / l + (w / l) o2, z = z1 + log1p(w)
 *
 * (0, -inf) is the identity: the other side comes back bit for bit, and a side's o is not read
 * where its z is -inf. Commutative bit for bit. NaN on either side gives NaN; so does +inf. */
typedef struct bdlm_merge_args {
  uint64_t size;            /* sizeof(bdlm_merge_args) */
  const bdlm_tensor* o_a;   /* (R, H, D), "partial_o" */
  const bdlm_tensor* lse_a; /* (R, H), "lse" */
  const bdlm_tensor* o_b;
  const bdlm_tensor* lse_b;
  bdlm_tensor* o;   /* may be the same as o_a */
  bdlm_tensor* lse; /* may be the same as lse_a */
  void* stream;
} bdlm_merge_args;

/* ---- Cross-entropy of a linear head ---- */

/* loss = sum_i weight_i (logsumexp_c x_ic - x_i,label_i),  x_ic = cap(h_i . w_c), over the rows
 * with label_i >= 0; cap(x) = softcap tanh(x / softcap), or x where softcap is 0. The class
 * `excluded` is left out of the softmax after the cap; -1 leaves none out. Gradients are those of
 * `upstream` * loss. Rows with a label below 0 are not read, and get a d_hidden of 0. */
typedef struct bdlm_cross_entropy_args {
  uint64_t size;                  /* sizeof(bdlm_cross_entropy_args) */
  const bdlm_tensor* hidden;      /* (R, E), "input" */
  const bdlm_tensor* head;        /* (V, E), "input" */
  const bdlm_tensor* labels;      /* (R), int64, in [0, V) or negative */
  const bdlm_tensor* row_weights; /* (R), fp32: weight / denominator; any finite number */
  double softcap;
  int64_t excluded;
  double upstream;
  bdlm_tensor* row_loss; /* (R), the contract's "lse": weighted; 0 for ignored rows */
  bdlm_tensor* d_hidden; /* (R, E), "gradient" */
  bdlm_tensor* d_head;   /* (V, E), fp32, or f64 where the contract accumulates in f64 */
  void* workspace;
  uint64_t workspace_bytes;
  void* stream;
} bdlm_cross_entropy_args;

/* ---- Moving data between ranks ---- */

enum {
  BDLM_ALL_GATHER = 0,
  BDLM_REDUCE_SCATTER = 1,
  BDLM_SEND = 2,
  BDLM_RECEIVE = 3,
  BDLM_ALL_REDUCE = 4
};

typedef struct bdlm_peer_buffer {
  int32_t peer;
  int32_t reserved;
  void* data;
  int64_t count; /* elements */
} bdlm_peer_buffer;

/* A group of ranks. Every rank calls the same operations in the same order. Buffers are host
 * memory. A start gives a ticket, which is waited for once. Sums are taken in rank order. A backend
 * with a transport of its own takes `native` (for instance an ncclComm_t), where that is not NULL,
 * and then reports what it sends through `log`; otherwise its traffic cannot be judged. */
typedef struct bdlm_communicator {
  uint64_t size; /* sizeof(bdlm_communicator) */
  void* self;
  int32_t rank;
  int32_t ranks;
  /* receive (ranks * count) = the `send` (count) of all ranks, in rank order */
  bdlm_status (*all_gather)(void* self, const void* send, void* receive, int64_t count,
                            bdlm_dtype dtype, const char* purpose, int64_t* ticket);
  /* receive (count) = sum over ranks of their slice for this rank of `send` (ranks * count) */
  bdlm_status (*reduce_scatter)(void* self, const void* send, void* receive, int64_t count,
                                bdlm_dtype dtype, const char* purpose, int64_t* ticket);
  /* At most one message each way between two ranks; every rank of the group calls it. */
  bdlm_status (*exchange)(void* self, int64_t send_count, const bdlm_peer_buffer* sends,
                          int64_t receive_count, const bdlm_peer_buffer* receives, bdlm_dtype dtype,
                          const char* purpose, int64_t* ticket);
  bdlm_status (*wait)(void* self, int64_t ticket);
  /* data (count) = the sum over ranks. Blocks. */
  bdlm_status (*all_reduce)(void* self, void* data, int64_t count, bdlm_dtype dtype,
                            const char* purpose);
  void* native;
  void (*log)(void* self, int32_t operation, int64_t bytes, int32_t peer, const char* purpose);
} bdlm_communicator;

/* ---- The training step of one rank ---- */

enum { BDLM_MONOLITHIC = 0, BDLM_CP = 1, BDLM_BP = 2, BDLM_CSBP = 3 };

/* A dense GQA transformer: x += attention(rms_norm(x)); x += swiglu(rms_norm(x)); RoPE by halves.
 */
typedef struct bdlm_dense_model {
  int64_t layers, hidden, q_heads, kv_heads, head_dim, mlp, vocab;
  double rope_theta, rms_epsilon;
  int32_t qk_norm;       /* RMSNorm over each head of Q and K, before RoPE */
  int32_t tied_head;     /* the head is the embedding */
  const int64_t* window; /* (layers); 0: full */
  int32_t clean_rule;    /* BDLM_BLOCK_CAUSAL or BDLM_TOKEN_CAUSAL */
  int32_t reserved;
} bdlm_dense_model;

/* One term of the loss: `weight` times the cross-entropy of `label` at a row of a stream. */
typedef struct bdlm_loss_term {
  int32_t stream;
  int32_t reserved;
  int64_t row, label;
  double weight;
} bdlm_loss_term;

/* One noised copy of the tokens and what is scored in it. */
typedef struct bdlm_view {
  const int64_t* corrupted_tokens; /* (length) */
  int64_t term_count;
  const bdlm_loss_term* terms; /* weights hold the global denominator */
} bdlm_view;

/* Loss and gradients of all parameters, summed over views and over the group: equal on every rank.
 * Every rank gets the whole example and divides it by `scheme`; which rows it takes is its own
 * affair as long as the sum is right. */
typedef struct bdlm_step_args {
  uint64_t size; /* sizeof(bdlm_step_args) */
  const bdlm_dense_model* model;
  const bdlm_layout* layout; /* its window and clean_rule are not used: the model's are */
  const int64_t* tokens;     /* (length) */
  int64_t view_count;
  const bdlm_view* views;
  double softcap;
  int64_t excluded;
  int32_t scheme; /* BDLM_MONOLITHIC with a group of one rank, ... */
  int32_t checkpointing;
  int64_t parameter_count;
  const char* const* names;             /* Hugging Face names, model.embed_tokens.weight, ... */
  const bdlm_tensor* const* parameters; /* "input" */
  bdlm_tensor* const* gradients;        /* shapes of the parameters; fp32, or f64 */
  double* loss;
  const bdlm_communicator* communicator;
  void* stream;
} bdlm_step_args;

/* ---- The backend ---- */

typedef struct bdlm_backend {
  uint32_t version; /* BDLM_PLUGIN_VERSION */
  uint32_t reserved;
  uint64_t size;     /* sizeof(bdlm_backend) */
  const char* name;  /* letters, digits, '_', '-', '.' */
  const char* about; /* one line: device and versions */
  /* The precision contract as JSON: where this backend rounds, and to what. It is judged by it. */
  const char* contract;
  bdlm_device device; /* where tensors have to live */

  /* A context holds what is kept between calls. NULL create: `context` is NULL everywhere. */
  bdlm_status (*create)(void** context);
  void (*destroy)(void* context);
  /* The last error of this context, a line; required, and never returns NULL. Also asked after a
   * `create` that failed, with what it wrote to `context`, or NULL. */
  const char* (*last_error)(void* context);

  /* Memory of `device`; all NULL where it is the host. Blocking, in order with `stream`. */
  bdlm_status (*allocate)(void* context, uint64_t bytes, void** memory);
  void (*release)(void* context, void* memory);
  bdlm_status (*copy_in)(void* context, void* device_memory, const void* host, uint64_t bytes);
  bdlm_status (*copy_out)(void* context, void* host, const void* device_memory, uint64_t bytes);

  /* Streams; all four NULL where work is synchronous. `delay` keeps a stream busy for some
   * microseconds: by it the suite tests that work waits for its inputs' stream. */
  bdlm_status (*create_stream)(void* context, void** stream);
  void (*destroy_stream)(void* context, void* stream);
  bdlm_status (*synchronize)(void* context, void* stream);
  bdlm_status (*delay)(void* context, void* stream, int64_t microseconds);

  /* Bytes of workspace that a call with these arguments needs; data pointers may be NULL. NULL
   * entry: none is ever needed. */
  bdlm_status (*attention_workspace)(void* context, const bdlm_attention_args* args,
                                     uint64_t* bytes);
  bdlm_status (*attention_backward_workspace)(void* context,
                                              const bdlm_attention_backward_args* args,
                                              uint64_t* bytes);
  bdlm_status (*cross_entropy_workspace)(void* context, const bdlm_cross_entropy_args* args,
                                         uint64_t* bytes);

  bdlm_status (*attention)(void* context, const bdlm_attention_args* args);
  bdlm_status (*attention_backward)(void* context, const bdlm_attention_backward_args* args);
  bdlm_status (*merge)(void* context, const bdlm_merge_args* args);
  bdlm_status (*cross_entropy)(void* context, const bdlm_cross_entropy_args* args);
  bdlm_status (*step)(void* context, const bdlm_step_args* args);
} bdlm_backend;

#if defined(__GNUC__)
#define BDLM_EXPORT __attribute__((visibility("default")))
#else
#define BDLM_EXPORT
#endif

/* What a plug-in exports. The struct stays valid as long as the library is loaded. */
BDLM_EXPORT const bdlm_backend* bdlm_plugin(void);

#ifdef __cplusplus
}
#endif
/* NOLINTEND(readability-identifier-naming) */

#endif /* BDLM_PLUGIN_H */
