#pragma once
// What one attention layer should give, how far from it a backend may be, and how far it should be
// on average.

#include "conformance/judge/attention_arrays.h"
#include "conformance/judge/contract.h"
#include "conformance/judge/decomposition.h"
#include "conformance/judge/error_model.h"

namespace bdlm {

/// One output, element by element.
struct ExpectedTensor {
  /// The reference, in double.
  ByStream<double> value;
  /// H: no correct backend is further away. 0 exactly where nothing is summed.
  ByStream<double> bound;
  /// sigma: the deviation that its roundings predict, taken as independent.
  ByStream<double> deviation;
  /// The coarsest u of the sites behind it.
  double unit = 0;
  /// u of the accumulation.
  double accumulate_unit = 0;
  /// So many adjacent elements, the channels of a row and head, share errors: of a probability, of
  /// a dS. Arrays are whole rows.
  int64_t channels = 1;
};

struct ExpectedAttention {
  ExpectedTensor o, lse, dq, dk, dv;
};

/// Evaluates the definition pair by pair, forward and backward, with the errors of every site of
/// the contract; d_o may be empty, then only O and LSE are filled. For small problems: the work is
/// pairs x heads x D, in plain loops, parallel over rows, and the same bits for any number of
/// threads. Throws InputError where arrays do not fit the shape, an input is not a finite number of
/// the contract's input format, or several ranks' rows see a key whose gradient nobody adds up.
ExpectedAttention expected_attention(const AttentionProblem<double>& problem,
                                     const Decomposition& decomposition, const Contract& contract);

// The two halves of the work.

/// (L, Hq) by stream.
using RowTermsByStream = std::array<std::vector<RowTerms>, 2>;

/// O, LSE and dQ; returns what the keys need to know of the rows.
RowTermsByStream bound_rows(const AttentionProblem<double>& problem,
                            const Decomposition& decomposition, const Contract& contract,
                            ExpectedAttention& expected);
/// dK and dV.
void bound_keys(const AttentionProblem<double>& problem, const Decomposition& decomposition,
                const Contract& contract, const RowTermsByStream& rows,
                ExpectedAttention& expected);

}  // namespace bdlm
