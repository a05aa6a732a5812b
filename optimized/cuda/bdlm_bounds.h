/* What the oracle bdlm_cuda_f64 offers besides the plug-in's entries: for the outputs of one
 * attention layer, how far from them a backend of a given precision contract may be (bound), and
 * how far it should be on average (deviation), element by element. Plain C. */
#ifndef BDLM_BOUNDS_H
#define BDLM_BOUNDS_H

#include "conformance/plugin/bdlm_plugin.h"

/* NOLINTBEGIN(readability-identifier-naming): names of C */
#ifdef __cplusplus
extern "C" {
#endif

/* A contract as numbers, with the constants of the rounding model. A unit is half the spacing of
 * numbers below 1 in a format, 0 where the site does not round; tiny is what its loss to zero is
 * forgiven. */
typedef struct bdlm_error_model {
  double accumulate; /* unit of sums and of everything that is not named */
  double p, ds, o, gradient;
  double tiny_p, tiny_ds, tiny_o, tiny_partial_o, tiny_gradient;
  double rounding_variance;    /* mean square of one rounding, in units squared */
  double chain_deviations;     /* a sum of n terms carries min(n, this sqrt(n)) roundings */
  double lse_chain_deviations; /* the same for the sum inside a log-sum-exp */
  double score_roundings;      /* of a score besides its products and sums */
  double exp_roundings;        /* of exp and of a merge, in units */
  int64_t chain;               /* longest sequential sum, in terms; 0: whole sums */
  int64_t merges;              /* of a row's states, in a partial format no coarser than sums */
} bdlm_error_model;

/* All tensors in f64 and on the device, but the inputs, which are as the oracle takes them. */
typedef struct bdlm_attention_bounds_args {
  uint64_t size; /* sizeof(bdlm_attention_bounds_args) */
  /* A whole layer, of one call and without dq_state. o, lse, dq, dk and dv are read: the values.
   * Inputs are finite numbers, also where nobody sees them. */
  const bdlm_attention_backward_args* call;
  const bdlm_error_model* model;
  bdlm_tensor *o_bound, *o_deviation;                                         /* (R, Hq, D) */
  bdlm_tensor *lse_bound, *lse_deviation;                                     /* (R, Hq) */
  bdlm_tensor *dq_bound, *dq_deviation;                                       /* (R, Hq, D) */
  bdlm_tensor *dk_bound[2], *dk_deviation[2], *dv_bound[2], *dv_deviation[2]; /* by key set */
  void* workspace; /* as many bytes as bdlm_attention_bounds_workspace said */
  uint64_t workspace_bytes;
} bdlm_attention_bounds_args;

BDLM_EXPORT bdlm_status bdlm_attention_bounds_workspace(void* context,
                                                        const bdlm_attention_bounds_args* args,
                                                        uint64_t* bytes);
BDLM_EXPORT bdlm_status bdlm_attention_bounds(void* context,
                                              const bdlm_attention_bounds_args* args);

/* NOLINTEND(readability-identifier-naming) */
#ifdef __cplusplus
}
#endif

#endif /* BDLM_BOUNDS_H */
