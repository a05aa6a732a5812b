// bdlm verify: runs the cases of the suite and judges them.

#include <iostream>
#include <map>
#include <optional>

#include "conformance/cli/command.h"
#include "conformance/cli/options.h"
#include "conformance/cli/run_in_order.h"
#include "conformance/cli/verify_outputs.h"
#include "conformance/report/table.h"
#include "conformance/report/write_report.h"
#include "conformance/suites/suite.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

struct Options {
  std::string level = "quick";
  std::string ids = "*";
  std::vector<std::string> tiers;
  std::vector<std::string> schemes;
  std::vector<int> ranks;
  std::string shard = "1/1";
  int jobs = 0;
  bool strict = false;
  bool list = false;
  bool verbose = false;
  std::string json;
  std::string jsonl;
  std::string junit;
  std::string outputs;
  std::string golden;
};

/// The i-th of n parts, as `--shard i/n` asks for.
struct Shard {
  int64_t index = 1;
  int64_t count = 1;
};

Shard parse_shard(const std::string& text) {
  const size_t slash = text.find('/');
  require(slash != std::string::npos, "--shard is '", printable(text),
          "'; allowed is i/n, for instance 2/4");
  constexpr int64_t most = 1000000;
  Shard shard;
  shard.count = parse_integer("--shard's n", text.substr(slash + 1), 1, most);
  shard.index = parse_integer("--shard's i", text.substr(0, slash), 1, shard.count);
  return shard;
}

/// What the cases of one tier and scheme came to.
struct Group {
  Summary summary;
  double worst = 0;  // err_over_bound
  double seconds = 0;
};

void print_groups(std::ostream& out, const std::map<std::string, Group>& groups) {
  char line[200];
  std::snprintf(line, sizeof line, "%-6s %-12s %8s %6s %9s %8s %12s %9s\n", "tier", "scheme",
                "cases", "PASS", "MARGINAL", "FAIL...", "err/bound", "seconds");
  out << line;
  for (const auto& [key, group] : groups) {
    const int64_t good = group.summary[Verdict::pass] + group.summary[Verdict::marginal];
    const size_t space = key.find(' ');
    std::snprintf(line, sizeof line, "%-6s %-12s %8lld %6lld %9lld %8lld %12s %9.1f\n",
                  key.substr(0, space).c_str(), key.substr(space + 1).c_str(),
                  static_cast<long long>(group.summary.cases()),
                  static_cast<long long>(group.summary[Verdict::pass]),
                  static_cast<long long>(group.summary[Verdict::marginal]),
                  static_cast<long long>(group.summary.cases() - good),
                  group.worst > 0 ? join(group.worst).substr(0, 8).c_str() : "-", group.seconds);
    out << line;
  }
}

double worst_of(const CaseResult& result) {
  double worst = 0;
  for (const TensorResult& tensor : result.tensors) {
    const Figure* figure = find_figure(tensor.figures, "err_over_bound");
    if (figure != nullptr && std::holds_alternative<double>(*figure)) {
      worst = std::max(worst, std::get<double>(*figure));
    }
  }
  return worst;
}

Selection selection_of(const Options& options) {
  Selection selection;
  selection.level = parse_level(options.level);
  selection.ids = options.ids;
  selection.tiers = options.tiers;
  if (!options.schemes.empty()) {
    selection.schemes = parse_schemes(options.schemes, {Scheme::cp, Scheme::bp, Scheme::csbp});
  }
  selection.ranks = options.ranks;
  return selection;
}

int verify(const Options& options) {
  check_report_paths({options.json, options.jsonl, options.junit});
  const Shard shard = parse_shard(options.shard);
  std::vector<SuiteCase> cases;
  {
    std::vector<SuiteCase> all = select_cases(selection_of(options));
    for (size_t i = 0; i < all.size(); ++i) {
      if (static_cast<int64_t>(i) % shard.count == shard.index - 1) {
        cases.push_back(std::move(all[i]));
      }
    }
  }
  require(!cases.empty(), "--shard ", options.shard, " has no case; there are fewer than its n");
  const bool to_stdout = is_standard_output(options.json) || is_standard_output(options.jsonl) ||
                         is_standard_output(options.junit);
  std::ostream& out = to_stdout ? std::cerr : std::cout;
  if (options.list) {
    require(options.json.empty() && options.jsonl.empty() && options.junit.empty(),
            "--list runs nothing, so it has nothing for --json, --jsonl or --junit");
    for (const SuiteCase& c : cases) {
      out << c.tier << ' ' << c.id << '\n';
    }
    return 0;
  }
  // Opened before the work, so that a path that cannot be written costs none.
  std::optional<ReportSink> json;
  std::optional<ReportSink> junit;
  std::optional<LineSink> lines;
  if (!options.json.empty()) {
    json.emplace(options.json, std::cout);
  }
  if (!options.junit.empty()) {
    junit.emplace(options.junit, std::cout);
  }
  if (!options.jsonl.empty()) {
    lines.emplace(options.jsonl, std::cout);
  }
  Table table(
      out,
      {{"err_over_bound", "err/bound", "largest difference over its bound; above 1 is wrong"},
       {"differing", "differing", "exact values that are not equal; above 0 is wrong"}},
      72, options.strict);
  if (options.verbose) {
    table.head();
  }
  std::map<std::string, Group> groups;
  std::vector<CaseResult> results;
  {
    Progress progress(!options.verbose);
    const auto judge = [&](size_t i) { return run_case(cases[i]); };
    run_in_order(cases.size(), job_count(options.jobs), judge, [&](CaseResult result) {
      const SuiteCase& c = cases[results.size()];
      Group& group = groups[c.tier + ' ' + name(c.scheme)];
      group.summary.add(result.verdict);
      group.worst = std::max(group.worst, worst_of(result));
      group.seconds += result.seconds.value_or(0);
      if (lines) {
        lines->write(json_line(result));
      }
      if (options.verbose || result.verdict != Verdict::pass) {
        table.row(result);
      }
      results.push_back(std::move(result));
      progress.show(join(results.size(), " of ", cases.size(), " cases, at ", c.tier, ' ', c.id));
    });
  }
  print_groups(out, groups);
  table.foot(summarize(results));
  if (lines) {
    lines->close();
  }
  if (json) {
    json->write(json_report(run_info(1), results));
    json->close();
  }
  if (junit) {
    junit->write(junit_report(results, options.strict));
    junit->close();
  }
  return exit_status(results, options.strict);
}

}  // namespace

void add_verify_command(CLI::App& app, int& status) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("verify", "Run the cases of the suite and judge them");
  add_text(*command, "--level", options->level, "quick (the default), gate or full");
  add_text(*command, "--case", options->ids, "Only ids that match this glob");
  add_words(*command, "--tier", options->tiers, "Only these tiers: T0, T2, T3");
  add_words(*command, "--scheme", options->schemes, "Only these schemes: cp, bp, csbp");
  add_integers(*command, "--ranks", options->ranks, 1, 1024, "Only these numbers of ranks");
  add_text(*command, "--shard", options->shard, "The i-th of n parts: i/n");
  add_integer(*command, "--jobs", options->jobs, 0, 256,
              "Cases beside each other; 0, the default, is one a core");
  command->add_flag("--strict", options->strict, "MISTRUSTED, SKIPPED and UNSUPPORTED fail too");
  command->add_flag("--list", options->list, "Print the ids and run nothing");
  command->add_flag("-v,--verbose", options->verbose, "A line for every tensor");
  add_text(*command, "--json", options->json, "Write one JSON document; - is standard output");
  add_text(*command, "--jsonl", options->jsonl,
           "Write a JSON line a case, in place and as they come; - is standard output");
  add_text(*command, "--junit", options->junit, "Write JUnit XML; - is standard output");
  add_text(*command, "--outputs", options->outputs,
           "Judge the outputs for golden vectors in this folder, ID.safetensors, instead");
  add_text(*command, "--golden", options->golden,
           "With --outputs: the folder of vectors; default golden/v1, or made anew");
  command->callback([options, &status] {
    const Options& o = *options;
    status = o.outputs.empty()
                 ? verify(o)
                 : verify_outputs({o.outputs, o.golden, o.ids, o.strict, o.json, o.jsonl, o.junit});
  });
}

}  // namespace bdlm
