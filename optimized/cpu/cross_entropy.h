#pragma once
// Cross-entropy of a linear head, without the logits of all rows and classes at once.

#include "optimized/cpu/attention_problem.h"
#include "optimized/cpu/logit_tile.h"

namespace bdlm::cpu {

/// The tensors of one call (bdlm_plugin.h, bdlm_cross_entropy_args).
struct CrossEntropyProblem {
  TensorView hidden;       // (R, E)
  TensorView head;         // (V, E)
  TensorView labels;       // (R)
  TensorView row_weights;  // (R)
  LogitRule rule;
  double upstream = 1;
  TensorView row_loss;  // (R)
  TensorView d_hidden;  // (R, E)
  TensorView d_head;    // (V, E); is added to
};

/// Throws InputError for a pointer that is missing, a shape, an element type, a label or an option
/// that does not fit. Reads rows with a label only.
CrossEntropyProblem read_problem(const bdlm_cross_entropy_args& args, const Formats& formats);
/// The checks of options, labels and weights alone.
void check(const CrossEntropyProblem& problem);

/// row_loss, d_hidden, and d_head +=. Rows that have a label and a weight are taken in chunks. For
/// each chunk a first pass over tiles of classes finds every row's maximum and sum; a second one
/// computes the logits again, a group of tiles at a time, and multiplies their gradients into both
/// outputs. Sums are taken in one order, whatever the number of threads.
void cross_entropy(const CrossEntropyProblem& problem);

}  // namespace bdlm::cpu
