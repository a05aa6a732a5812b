#include "conformance/doors/judge_plan.h"

#include "conformance/suites/coverage.h"

namespace bdlm {
namespace {

/// Who counts which rows: the first rank that holds a row; clean rows that nobody holds (block
/// parallelism computes only prefixes) belong to rank 0. Corrupted rows of nobody stay out, which
/// check_coverage reports.
Ownership ownership_of(const PlanFile& file, PlanVerdict& verdict) {
  Ownership out;
  out.ranks = static_cast<int>(file.plans.size());
  std::array<IntervalSet, 2> taken;
  std::vector<std::array<IntervalSet, 2>> counted(file.plans.size());
  for (size_t r = 0; r < file.plans.size(); ++r) {
    const RowSet& rows = file.plans[r].rows;
    out.rows.push_back(rows);
    for (const Stream stream : {Stream::clean, Stream::corrupted}) {
      const int s = static_cast<int>(stream);
      const IntervalSet again = intersect(rows.rows(stream), taken[s]);
      if (stream == Stream::clean) {
        verdict.replicated_clean_rows += size(again);
      } else {
        for (const Interval& part : again) {
          verdict.violations.add("rank ", r, ": corrupted rows ", part,
                                 " are computed by a rank before it, too");
        }
      }
      counted[r][s] = subtract(rows.rows(stream), taken[s]);
      std::vector<Interval> all = taken[s];
      all.insert(all.end(), counted[r][s].begin(), counted[r][s].end());
      taken[s] = unite(std::move(all));
    }
  }
  const int clean = static_cast<int>(Stream::clean);
  std::vector<Interval> first = counted[0][clean];
  for (const Interval& rest : subtract({{0, file.sequence.length()}}, taken[clean])) {
    first.push_back(rest);
  }
  counted[0][clean] = unite(std::move(first));
  for (const auto& [clean_rows, corrupted_rows] : counted) {
    out.counted.emplace_back(corrupted_rows, clean_rows);
  }
  return out;
}

}  // namespace

PlanVerdict judge_plan(const PlanFile& file) {
  PlanVerdict verdict;
  const Ownership ownership = ownership_of(file, verdict);
  const CoverageReport report = check_coverage(file.sequence, file.rule, ownership,
                                               [&](int rank) { return file.plans[rank]; });
  for (const std::string& text : report.violations.texts()) {
    verdict.violations.add(text);
  }
  for (auto rest = static_cast<int64_t>(report.violations.texts().size());
       rest < report.violations.count(); ++rest) {
    verdict.violations.add("one more of these");
  }
  verdict.pairs = report.pairs;
  verdict.imbalance = report.imbalance();
  for (size_t r = 0; r < file.plans.size(); ++r) {
    const SentBytes sent = sent_bytes(file, file.plans[r]);
    const DeclaredBytes& said = file.declared[r];
    const auto compare = [&](const char* phase, int64_t declared, int64_t counted) {
      if (declared >= 0 && declared != counted) {
        verdict.violations.add("rank ", r, " ", phase, ": declares ", declared,
                               " bytes sent; its steps send ", counted);
      }
    };
    compare("forward", said.forward, sent.forward);
    compare("backward", said.backward, sent.backward);
    verdict.sent.push_back(sent);
  }
  return verdict;
}

}  // namespace bdlm
