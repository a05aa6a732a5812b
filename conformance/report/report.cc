#include "conformance/report/report.h"

#include <algorithm>
#include <numeric>

#include "reference/base/error.h"

namespace bdlm {

const Figure* find_figure(const Figures& figures, std::string_view figure_name) {
  const auto found = std::find_if(figures.begin(), figures.end(),
                                  [&](const auto& figure) { return figure.first == figure_name; });
  return found == figures.end() ? nullptr : &found->second;
}

void CaseResult::add(TensorResult tensor) {
  if (tensor.verdict > verdict) {
    verdict = tensor.verdict;
    reason = tensor.reason;
    detail = tensor.detail.empty() ? tensor.tensor : tensor.tensor + ": " + tensor.detail;
  }
  tensors.push_back(std::move(tensor));
}

int64_t Summary::cases() const {
  return std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
}

Summary summarize(const std::vector<CaseResult>& results) {
  Summary summary;
  for (const CaseResult& result : results) {
    summary.add(result.verdict);
  }
  return summary;
}

std::string_view name(KnownState state) {
  switch (state) {
    case KnownState::unlisted:
      return "unlisted";
    case KnownState::known:
      return "known";
    case KnownState::passed:
      return "passed";
    case KnownState::expired:
      return "expired";
  }
  throw LogicError(join("state ", static_cast<int>(state), " of a known failure does not exist"));
}

std::string known_remark(const Known& known) {
  switch (known.state) {
    case KnownState::unlisted:
      return "";
    case KnownState::known:
      return join("known failure until ", known.expires, ": ", known.reason);
    case KnownState::passed:
      return join("listed as a known failure, but it passes; take it off the list: ", known.reason);
    case KnownState::expired:
      return join("listed as a known failure until ", known.expires,
                  ", which is over: ", known.reason);
  }
  throw LogicError("a known failure has no such state");
}

bool fails_run(const CaseResult& result, bool strict) {
  switch (result.known.state) {
    case KnownState::unlisted:
      return is_failure(result.verdict, result.reason, strict);
    case KnownState::known:
      return false;
    case KnownState::passed:
    case KnownState::expired:
      return true;
  }
  throw LogicError("a known failure has no such state");
}

int exit_status(const std::vector<CaseResult>& results, bool strict) {
  const bool failed =
      std::any_of(results.begin(), results.end(),
                  [strict](const CaseResult& result) { return fails_run(result, strict); });
  return failed || (strict && judges_nothing(results)) ? 1 : 0;
}

bool judges_nothing(const std::vector<CaseResult>& results) {
  return !results.empty() &&
         std::all_of(results.begin(), results.end(), [](const CaseResult& result) {
           return result.verdict == Verdict::unsupported;
         });
}

}  // namespace bdlm
