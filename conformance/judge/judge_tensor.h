#pragma once
// The verdict on one output of an attention layer.

#include <functional>
#include <string>

#include "conformance/judge/bounds.h"
#include "conformance/report/report.h"

namespace bdlm {

enum class OutputKind : uint8_t { o, lse, dq, dk, dv };
/// "O", "LSE", "dQ", "dK", "dV".
const char* name(OutputKind kind);

/// One element of an output.
struct Place {
  int stream = 0;
  /// Index in the stream's array.
  int64_t element = -1;
};

/// How far an output is from what is expected. x is the expected value, x' the one to be judged.
struct Measures {
  /// Elements that are summed from something (H > 0) and finite.
  int64_t elements = 0;
  /// NaN or infinity where x is not the same.
  int64_t nonfinite = 0;
  Place first_nonfinite;
  /// Not 0 where nothing is summed (H = 0).
  int64_t not_zero = 0;
  Place first_not_zero;
  /// max |x' - x| / H
  double err_over_h = 0;
  Place worst_bound;
  /// max |x' - x| / sigma
  double max_z = 0;
  Place worst_z;
  /// sqrt(mean((x' - x)^2 / sigma^2))
  double rms_z = 0;
  /// <x', x> / <x, x>; 1 where x is 0.
  double gain = 1;
  /// sqrt(sum sigma^2 x^2) / <x, x>, the deviation of the gain where all errors are independent.
  double gain_deviation = 0;
  /// The same where those of a row's channels are one: sqrt(sum over rows (sum sigma |x|)^2) /
  /// <x, x>. The true one lies between.
  double gain_row_deviation = 0;
};

/// `got(stream, element)` is x'.
Measures measure(const ExpectedTensor& expected, const std::function<double(int, int64_t)>& got);

/// Judges by these limits, in this order; all constants are in limits.h.
///
///   nonfinite  NaN and infinities are where they should be, with their signs
///   coverage   a row that sees nothing, or a key that nobody sees, has exactly 0
///   scale      |gain - 1| is small; named first where it explains all the rest
///   bound      |x' - x| <= H for every element
///   outlier    |x' - x| / sigma <= 8; above 6.5 MARGINAL
///   noise      their root mean square <= 1.08 + 4 / sqrt(N); up to 1.5 MARGINAL; Gaussian data
///
/// outlier and noise are judged where the contract rounds below the accumulation; LSE has bound
/// alone. What passes is MISTRUSTED if zeros, or 1.01 times the right answer, would pass too. The
/// detail names rank, stream, block, token, head and channel of the worst element.
///
/// Figures: err_over_h, max_z, rms_z, gain_minus_1; for the LSE err_over_h and lse, the share of
/// probability exp(z' - z) - 1 that is gained or lost, where it is worst.
TensorResult judge_tensor(OutputKind kind, const AttentionShape& shape,
                          const Decomposition& decomposition, const ExpectedTensor& expected,
                          const ByStream<double>& got, bool gaussian);

/// What of an output is judged.
enum class JudgedBy : uint8_t {
  every_limit,  ///< those above
  bound,        ///< all but scale, outlier and noise
  lse,          ///< the same, with the figure lse
};

/// The same for any output that lies in one or two arrays; `where` names an element to people.
TensorResult judge_values(const std::string& tensor, JudgedBy by, const ExpectedTensor& expected,
                          const ByStream<double>& got, bool gaussian,
                          const std::function<std::string(const Place&)>& where);

/// "rank 2, corrupted stream, block 5, token 43, head 1, channel 7".
std::string describe(OutputKind kind, const AttentionShape& shape,
                     const Decomposition& decomposition, const Place& place);

}  // namespace bdlm
