// bdlm mutate: plants faults in right code and sees whether the suite finds them.

#include <algorithm>
#include <iostream>
#include <optional>

#include "conformance/cli/command.h"
#include "conformance/cli/embedded_backends.h"
#include "conformance/cli/options.h"
#include "conformance/cli/run_in_order.h"
#include "conformance/mutants/backend_mutation.h"
#include "conformance/mutants/compare_rules.h"
#include "conformance/mutants/mutation.h"
#include "conformance/report/case_id.h"
#include "conformance/report/write_report.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

struct MutateOptions {
  std::string mutants = "*";
  int jobs = 0;
  bool matrix = false;
  bool list = false;
  bool compare_rules = false;
  std::string json;
};

/// A mutant of the reference or of a backend.
struct Target {
  std::string name, kind, what;
  std::function<MutantResult(bool every_tier)> judge;
};

/// The reference's own, and where the program has a backend those around it.
std::vector<Target> all_targets(const std::vector<SuiteCase>& cases) {
  std::vector<Target> out;
  for (Mutant& mutant : all_mutants()) {
    const auto shared = std::make_shared<const Mutant>(std::move(mutant));
    out.push_back({shared->name, shared->kind, shared->what, [shared, &cases](bool every_tier) {
                     return judge_mutant(*shared, cases, every_tier);
                   }});
  }
  if (!embedded_backend_names().empty()) {
    for (BackendMutant& mutant : backend_mutants()) {
      const auto shared = std::make_shared<const BackendMutant>(std::move(mutant));
      out.push_back({shared->name, shared->kind, shared->what, [shared](bool every_tier) {
                       const std::unique_ptr<Backend> right =
                           find_backend(embedded_backend_names().front());
                       return judge_backend_mutant(*shared, right->entries(), every_tier);
                     }});
    }
  }
  return out;
}

std::vector<Target> chosen_targets(const std::string& glob, const std::vector<SuiteCase>& cases) {
  std::vector<Target> out;
  std::string example;
  for (Target& target : all_targets(cases)) {
    example = target.name;
    if (glob_match(glob, target.name)) {
      out.push_back(std::move(target));
    }
  }
  require(!out.empty(), "--mutant is '", printable(glob), "', which no mutant matches; one is ",
          example, ", and --list shows all");
  return out;
}

const std::vector<std::string> tiers{"T0", "T1", "T2", "T3", "T4", "T5", "T6", "T7"};

std::string join_words(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    out += ' ' + padded(word, 8);
  }
  return out.substr(1);
}

/// What a tier said: the reason of a FAIL, the verdict of anything else, "-" where all passed.
std::string word_of(const MutantResult& result, const std::string& tier) {
  for (const Kill& kill : result.kills) {
    if (kill.tier == tier) {
      return std::string(kill.verdict == Verdict::fail ? name(kill.reason) : name(kill.verdict));
    }
  }
  return "-";
}

/// One column of words a tier, or the first tier's verdict and diagnosis.
void print(std::ostream& out, const MutantResult& result, bool matrix) {
  std::string line = join(padded(result.name, 28), ' ', padded(result.kind, 19));
  if (matrix) {
    for (const std::string& tier : tiers) {
      line += ' ' + padded(word_of(result, tier), 8);
    }
  } else if (result.kills.empty()) {
    line += " SURVIVED: " + result.what;
  } else {
    const Kill& kill = result.kills.front();
    line += join(' ', kill.tier, ' ', padded(word_of(result, kill.tier), 9), ' ', kill.diagnosis);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out << line << '\n';
}

/// Throws LogicError where right code does not pass.
void check_right_code(const std::vector<SuiteCase>& cases, int jobs) {
  run_in_order(
      cases.size(), jobs, [&](size_t i) { return run_case(cases[i]); },
      [](const CaseResult& result) {
        require<LogicError>(result.verdict == Verdict::pass, "without a fault ", result.tier, ' ',
                            result.id, " is ", name(result.verdict), ": ", result.detail);
      });
}

/// The usual comparisons and the judge on the same mistakes. 1 where the judge misses one.
int show_rules(const MutateOptions& options) {
  require(!options.matrix && !options.list && options.mutants == "*",
          "--compare-rules has faults of its own; it takes --json, and none of --mutant, --matrix, "
          "--list");
  std::optional<ReportSink> sink = open_report(options.json, std::cout);
  const std::vector<RuleComparison> rows = compare_rules();
  (is_standard_output(options.json) ? std::cerr : std::cout) << format_rules(rows);
  if (sink) {
    sink->write(rules_report(run_info(3), rows));
    sink->close();
  }
  return std::all_of(rows.begin(), rows.end(),
                     [](const RuleComparison& row) {
                       return (row.verdict == Verdict::fail) == (row.fault != "none");
                     })
             ? 0
             : 1;
}

int mutate(const MutateOptions& options) {
  if (options.compare_rules) {
    return show_rules(options);
  }
  require(!options.list || options.json.empty(),
          "--list runs nothing, so it has nothing for --json");
  std::optional<ReportSink> sink = open_report(options.json, std::cout);
  const std::vector<SuiteCase> cases = mutation_cases();
  const std::vector<Target> mutants = chosen_targets(options.mutants, cases);
  std::ostream& out = is_standard_output(options.json) ? std::cerr : std::cout;
  if (options.list) {
    for (const Target& mutant : mutants) {
      out << padded(mutant.name, 28) << ' ' << padded(mutant.kind, 19) << ' ' << mutant.what
          << '\n';
    }
    return 0;
  }
  const int jobs = job_count(options.jobs);
  check_right_code(cases, jobs);
  out << padded("mutant", 28) << ' ' << padded("class", 19) << ' '
      << (options.matrix ? join_words(tiers) : "by reason    diagnosis") << '\n';
  out << padded("none", 28) << ' ' << padded("", 19)
      << (options.matrix ? "" : join(" -  all of ", cases.size(), " cases pass")) << '\n';
  std::vector<MutantResult> results;
  int64_t killed = 0;
  run_in_order(
      mutants.size(), jobs, [&](size_t i) { return mutants[i].judge(options.matrix); },
      [&](MutantResult result) {
        killed += result.kills.empty() ? 0 : 1;
        print(out, result, options.matrix);
        results.push_back(std::move(result));
      });
  const auto survivors = static_cast<int64_t>(results.size()) - killed;
  out << killed << " of " << results.size() << " faults found";
  for (const MutantResult& result : results) {
    if (result.kills.empty()) {
      out << "; not " << result.name;
    }
  }
  out << '\n';
  if (sink) {
    sink->write(mutation_report(run_info(1), static_cast<int64_t>(cases.size()), results));
    sink->close();
  }
  return survivors == 0 ? 0 : 1;
}

}  // namespace

void add_mutate_command(CLI::App& app, int& status) {
  auto options = std::make_shared<MutateOptions>();
  CLI::App* command =
      app.add_subcommand("mutate", "Plant faults in right code and see that the suite finds them");
  add_text(*command, "--mutant", options->mutants, "Only mutants whose name matches this glob");
  command->add_flag("--matrix", options->matrix, "Every tier on every mutant: a table")
      ->disable_flag_override();
  command->add_flag("--list", options->list, "Print the mutants and run nothing")
      ->disable_flag_override();
  command
      ->add_flag("--compare-rules", options->compare_rules,
                 "What allclose and two other usual rules say of numeric faults, and the judge")
      ->disable_flag_override();
  add_integer(*command, "--jobs", options->jobs, 0, 256,
              "Mutants beside each other; 0, the default, is one a core");
  add_text(*command, "--json", options->json, "Write one JSON document; - is standard output");
  command->callback([options, &status] { status = mutate(*options); });
}

}  // namespace bdlm
