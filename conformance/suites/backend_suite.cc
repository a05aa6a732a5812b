#include "conformance/suites/backend_suite.h"

#include <algorithm>
#include <chrono>

#include "conformance/report/case_id.h"
#include "conformance/suites/backend_failure.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

template <class T>
bool chosen(const std::vector<T>& list, const T& value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

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
  static const std::vector<std::string> tiers{"T1", "T4", "T5", "T6", "T7"};
  for (const std::string& tier : selection.tiers) {
    require(std::find(tiers.begin(), tiers.end(), tier) != tiers.end(), "unknown tier '",
            printable(tier), "' for a backend; known are ", listed(tiers));
  }
  std::vector<BackendCase> out;
  std::string example;
  for (BackendCase& c : backend_cases(selection)) {
    example = c.id;
    if (chosen(selection.tiers, c.tier) && chosen(selection.schemes, c.scheme) &&
        chosen(selection.ranks, c.ranks) && glob_match(selection.ids, c.id)) {
      out.push_back(std::move(c));
    }
  }
  require(!out.empty(),
          "no backend case of this level, tier, scheme, ranks and id is there; ids look like ",
          example, ", and --case takes * and ?");
  return out;
}

CaseResult run_case(const BackendCase& backend_case, const Backend& backend) {
  const auto begin = std::chrono::steady_clock::now();
  CaseResult result;
  try {
    result = backend_case.run(backend);
  } catch (const BackendFailure& failure) {
    result = failure.result();
  } catch (const std::exception& error) {
    result = {};
    result.verdict = Verdict::crash;
    result.detail = error.what();
  }
  result.id = backend_case.id;
  result.tier = backend_case.tier;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
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
