#include "conformance/cli/verify_report.h"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "reference/base/error.h"

namespace bdlm {
namespace {

bool reports_to_stdout(const VerifyOptions& options) {
  return is_standard_output(options.json) || is_standard_output(options.jsonl) ||
         is_standard_output(options.junit);
}

/// The largest error over its bound of the case's tensors: 0 where none is measured.
double worst_of(const CaseResult& result) {
  double worst = 0;
  for (const TensorResult& tensor : result.tensors) {
    for (const char* figure_name : {"err_over_bound", "err_over_h"}) {
      const Figure* figure = find_figure(tensor.figures, figure_name);
      if (figure != nullptr && std::holds_alternative<double>(*figure)) {
        worst = std::max(worst, std::get<double>(*figure));
      }
    }
  }
  return worst;
}

}  // namespace

VerifyReport::VerifyReport(const VerifyOptions& options)
    : options_(options), out_(reports_to_stdout(options) ? std::cerr : std::cout) {
  if (!options.known_failures.empty()) {
    known_ = read_known_failures(options.known_failures);
    today_ = today();
  }
  json_ = open_report(options.json, std::cout);
  junit_ = open_report(options.junit, std::cout);
  lines_ = open_report(options.jsonl, std::cout);
}

void VerifyReport::begin(std::vector<Column> columns, int64_t id_width) {
  table_.emplace(out_, std::move(columns), id_width, options_.strict);
  if (options_.verbose || !options_.outputs.empty()) {
    table_->head();
  }
}

void VerifyReport::take(CaseResult result, Scheme scheme) {
  result.options = rerun_options(options_);
  mark_known(result, known_, today_);
  Group& group = groups_[result.tier + ' ' + name(scheme)];
  group.summary.add(result.verdict);
  group.worst = std::max(group.worst, worst_of(result));
  group.seconds += result.seconds.value_or(0);
  if (lines_) {
    lines_->write(json_line(result));
  }
  // Of files every one that is there is shown; most vectors may have none.
  const bool shown = options_.outputs.empty() ? options_.verbose || result.verdict != Verdict::pass
                                              : result.verdict != Verdict::skipped;
  if (shown || result.known.state != KnownState::unlisted) {
    table_->row(result);
  }
  results_.push_back(std::move(result));
}

int VerifyReport::finish(const RunInfo& run) {
  if (options_.outputs.empty()) {
    print_groups();
  }
  table_->foot(summarize(results_));
  print_known();
  if (options_.strict && judges_nothing(results_)) {
    out_ << "every case is UNSUPPORTED: nothing was judged\n";
  }
  if (lines_) {
    lines_->close();
  }
  if (json_) {
    json_->write(json_report(run, results_));
    json_->close();
  }
  if (junit_) {
    junit_->write(junit_report(results_, options_.strict));
    junit_->close();
  }
  return exit_status(results_, options_.strict);
}

void VerifyReport::print_groups() const {
  char line[200];
  std::snprintf(line, sizeof line, "%-6s %-12s %8s %6s %9s %8s %12s %9s\n", "tier", "scheme",
                "cases", "PASS", "MARGINAL", "others", "err/bound", "seconds");
  out_ << line;
  for (const auto& [key, group] : groups_) {
    const int64_t good = group.summary[Verdict::pass] + group.summary[Verdict::marginal];
    const size_t space = key.find(' ');
    std::snprintf(line, sizeof line, "%-6s %-12s %8lld %6lld %9lld %8lld %12s %9.1f\n",
                  key.substr(0, space).c_str(), key.substr(space + 1).c_str(),
                  static_cast<long long>(group.summary.cases()),
                  static_cast<long long>(group.summary[Verdict::pass]),
                  static_cast<long long>(group.summary[Verdict::marginal]),
                  static_cast<long long>(group.summary.cases() - good),
                  group.worst > 0 ? join(group.worst).substr(0, 8).c_str() : "-", group.seconds);
    out_ << line;
  }
}

void VerifyReport::print_known() const {
  if (known_.empty()) {
    return;
  }
  const auto count = [&](KnownState state) {
    return std::count_if(results_.begin(), results_.end(),
                         [&](const CaseResult& r) { return r.known.state == state; });
  };
  const auto here = std::count_if(results_.begin(), results_.end(), [](const CaseResult& r) {
    return r.known.state != KnownState::unlisted;
  });
  out_ << "known failures: " << count(KnownState::known) << " failed as listed, "
       << count(KnownState::passed) << " passed, " << count(KnownState::expired) << " expired, "
       << static_cast<int64_t>(known_.size()) - here << " not in this run\n";
}

void check_list_options(const VerifyOptions& options) {
  require(options.json.empty() && options.jsonl.empty() && options.junit.empty(),
          "--list runs nothing, so it has nothing for --json, --jsonl or --junit");
}

void list_case(const std::string& tier, const std::string& id) {
  std::cout << tier << ' ' << id << '\n';
}

}  // namespace bdlm
