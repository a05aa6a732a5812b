#include "conformance/suites/backend_suite.h"

#include "conformance/report/case_id.h"
#include "conformance/suites/backend_failure.h"
#include "reference/base/error.h"

namespace bdlm {

std::vector<BackendCase> backend_cases(const Selection& selection) {
  std::vector<BackendCase> out;
  for (const auto make : {probe_cases, merge_cases, cross_entropy_cases, statistical_cases,
                          step_backend_cases, metamorphic_cases, hygiene_cases}) {
    for (BackendCase& c : make(selection)) {
      out.push_back(std::move(c));
    }
  }
  return out;
}

std::vector<BackendCase> select_backend_cases(const Selection& selection) {
  check_tiers(selection, {"T1", "T4", "T5", "T6", "T7"});
  std::vector<BackendCase> out;
  std::string example;
  for (BackendCase& c : backend_cases(selection)) {
    example = c.id;
    if (chosen(selection.tiers, c.tier) && chosen(selection.schemes, c.scheme) &&
        chosen(selection.ranks, c.ranks) && glob_match(selection.ids, c.id)) {
      out.push_back(std::move(c));
    }
  }
  require(!out.empty(), nothing_selected(selection, example));
  return out;
}

CaseResult run_case(const BackendCase& backend_case, const Backend& backend) {
  return judged(backend_case.id, backend_case.tier, [&] {
    try {
      return backend_case.run(backend);
    } catch (const BackendFailure& failure) {
      return failure.result();
    }
  });
}

void require_call(const char* entry, const CallStatus& status, const std::string& violation) {
  if (std::optional<CaseResult> result = unjudged(entry, status, violation)) {
    throw BackendFailure(std::move(*result));
  }
}

std::optional<CaseResult> unjudged(const std::string& entry, const CallStatus& status,
                                   const std::string& violation) {
  CaseResult result;
  if (!violation.empty()) {
    result.verdict = Verdict::fail;
    result.reason = Reason::guard;
    result.detail = join(entry, ": ", violation);
    return result;
  }
  if (status.ok()) {
    return std::nullopt;
  }
  const std::string message = status.message.empty() ? "" : ": " + status.message;
  if (status.code == BDLM_UNSUPPORTED) {
    result.verdict = Verdict::unsupported;
    result.reason = status.null_entry ? Reason::null_entry : Reason::none;
    result.detail = status.null_entry ? "the entry " + entry + " is NULL"
                                      : entry + " returned BDLM_UNSUPPORTED" + message;
    return result;
  }
  result.verdict = Verdict::crash;
  result.detail = join(entry, " returned ", name(status.code), message);
  return result;
}

}  // namespace bdlm
