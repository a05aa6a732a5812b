#pragma once
// What a judged case can come to, and what a run of cases tells the shell.

#include <cstdint>
#include <string_view>

namespace bdlm {

/// From best to worst, so that a case takes the greatest verdict of its tensors.
enum class Verdict : uint8_t {
  /// Every limit holds.
  pass,
  /// Within the bound, yet in the range between what is expected and what is allowed.
  marginal,
  /// The backend lacks what the case needs.
  unsupported,
  /// Not run here, for instance without a GPU. Never a pass.
  skipped,
  /// The case could not have told a right answer from certain wrong ones.
  mistrusted,
  /// A limit is broken; the Reason says which.
  fail,
  /// No answer within the time limit.
  timeout,
  /// The worker ended, or an entry returned an error.
  crash,
};

/// Which limit decided a verdict.
enum class Reason : uint8_t {
  none,
  /// A pair of query and key is missing, doubled or forbidden.
  coverage,
  /// An error exceeds the bound of its element.
  bound,
  /// A single error is out of proportion to the deviation predicted for its element.
  outlier,
  /// The errors together are larger than predicted.
  noise,
  /// The result is the right one times a factor.
  scale,
  /// NaN or infinity where there should be none, or the other way round.
  nonfinite,
  /// Bits differ that must be equal.
  bitwise,
  /// A byte changed outside the outputs, or an output was left unwritten.
  guard,
  /// Only with `unsupported`: the plug-in leaves the entry NULL, and so has declared it.
  null_entry,
  /// A file cannot be read, or does not hold what it must.
  file,
};

/// Upper-case name as it is printed, for instance "PASS".
std::string_view name(Verdict verdict);

/// Lower-case key of the summary in a report, for instance "pass".
std::string_view summary_key(Verdict verdict);

/// Name as it is printed; empty for `none`.
std::string_view name(Reason reason);

/// True where the verdict makes a run exit with status 1: fail, timeout and crash; under `strict`
/// also mistrusted, skipped, and unsupported unless the entry is NULL.
bool is_failure(Verdict verdict, Reason reason, bool strict);

}  // namespace bdlm
