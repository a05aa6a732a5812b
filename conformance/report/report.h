#pragma once
// The results of a run of cases, and their summary.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "conformance/report/verdict.h"

namespace bdlm {

/// A measured value. Doubles may be non-finite.
using Figure = std::variant<double, int64_t, std::string>;

/// Figures by name, in the order in which they were measured. Names are keys of the JSON report:
/// lower case with '_', for instance "err_over_h".
using Figures = std::vector<std::pair<std::string, Figure>>;

/// The figure of that name, or null.
const Figure* find_figure(const Figures& figures, std::string_view figure_name);

/// One tensor of a case that judges several.
struct TensorResult {
  /// For instance "dK" or a parameter's name.
  std::string tensor;
  Verdict verdict = Verdict::pass;
  Reason reason = Reason::none;
  Figures figures;
  /// One line for people, for instance where the worst element lies. May be empty.
  std::string detail;
};

/// Where a case stands in a list of known failures.
enum class KnownState : uint8_t {
  unlisted,
  known,    ///< fails as the list says: this does not fail the run
  passed,   ///< listed, and does not fail any more: this fails the run
  expired,  ///< listed until a day that is over: this fails the run
};
std::string_view name(KnownState state);

struct Known {
  KnownState state = KnownState::unlisted;
  std::string reason;
  std::string expires;
};
/// "known failure until 2027-03-31: REASON", or what is wrong with that. Empty where unlisted.
std::string known_remark(const Known& known);

/// What came out of one case.
struct CaseResult {
  std::string id;
  /// "T0" to "T7".
  std::string tier;
  Verdict verdict = Verdict::pass;
  Reason reason = Reason::none;
  Figures figures;
  /// One line for people. May be empty.
  std::string detail;
  /// Empty where the case is judged as a whole.
  std::vector<TensorResult> tensors;
  /// Wall time, where it was taken.
  std::optional<double> seconds;
  Known known = {};
  /// Options with which the case runs again, for instance "--backend ./libmine.so". May be empty.
  std::string options = {};

  /// Adds a tensor. The case takes over verdict, reason and detail of the first tensor that is
  /// worse than everything before it.
  void add(TensorResult tensor);
};

/// What ran, on what. Empty fields are unknown.
struct RunInfo {
  std::string commit;
  std::string device;
  /// For instance {"compiler", "g++ 12.2.0"}.
  std::map<std::string, std::string> versions;
  /// Name of the precision contract that the backend declares.
  std::string contract;
  uint64_t seed = 0;
};

/// How many cases came to each verdict.
class Summary {
 public:
  void add(Verdict verdict) { ++counts_[static_cast<size_t>(verdict)]; }
  int64_t operator[](Verdict verdict) const { return counts_[static_cast<size_t>(verdict)]; }
  /// Of all verdicts.
  int64_t cases() const;

  /// The verdicts in the order in which reports list them.
  static constexpr std::array<Verdict, 8> order{
      Verdict::pass,        Verdict::marginal, Verdict::fail,    Verdict::mistrusted,
      Verdict::unsupported, Verdict::skipped,  Verdict::timeout, Verdict::crash};

 private:
  std::array<int64_t, 8> counts_{};
};

/// Counts the cases.
Summary summarize(const std::vector<CaseResult>& results);

/// Whether the case makes its run fail: is_failure (verdict.h), unless the list of known failures
/// has it; then where it passes, or is listed too long.
bool fails_run(const CaseResult& result, bool strict);

/// Status with which a run of these cases exits: 1 where one of them fails it, else 0. Bad input is
/// status 2 and never gets here.
int exit_status(const std::vector<CaseResult>& results, bool strict);
/// Whether there are cases and every one is UNSUPPORTED: under `strict` that fails the run.
bool judges_nothing(const std::vector<CaseResult>& results);

}  // namespace bdlm
