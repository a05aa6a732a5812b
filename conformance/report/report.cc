#include "conformance/report/report.h"

#include <algorithm>
#include <numeric>

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

int exit_status(const std::vector<CaseResult>& results, bool strict) {
  return std::any_of(results.begin(), results.end(),
                     [strict](const CaseResult& result) {
                       return is_failure(result.verdict, result.reason, strict);
                     })
             ? 1
             : 0;
}

}  // namespace bdlm
