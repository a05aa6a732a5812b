// bdlm compare: two runs of a user's own framework.

#include <iostream>
#include <optional>

#include "conformance/cli/command.h"
#include "conformance/cli/options.h"
#include "conformance/doors/compare_runs.h"
#include "conformance/report/table.h"
#include "conformance/report/write_report.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

struct CompareArguments {
  std::string a, b;
  std::string contract = "bf16";
  int64_t layers = 1;
  int64_t terms = 4096;
  bool strict = false;
  bool verbose = false;
  std::string json, junit;
};

int compare(const CompareArguments& o) {
  check_report_paths({o.json, o.junit});
  std::optional<ReportSink> json = open_report(o.json, std::cout);
  std::optional<ReportSink> junit = open_report(o.junit, std::cout);
  const CompareOptions options{find_contract(o.contract), o.layers, o.terms};
  const CaseResult result = compare_files(o.a, o.b, options);
  std::ostream& out =
      is_standard_output(o.json) || is_standard_output(o.junit) ? std::cerr : std::cout;
  Table table(out,
              {{"relative_l2", "rel. L2", "|B - A| / |A|; two correct runs stay below the limit"},
               {"max_abs", "max |B-A|", "the largest difference of an element"},
               {"cosine", "cosine", "of the angle between A and B; 1 is equal but for a factor"},
               {"gain_minus_1", "gain-1", "<A,B>/<A,A> - 1: how much larger B is"}},
              24, o.strict);
  CaseResult shown = result;
  const auto file_name = [](const std::string& path) {
    return printable(path.substr(path.find_last_of('/') + 1), 40);
  };
  shown.id = file_name(o.a) + " " + file_name(o.b);
  if (!o.verbose) {
    // All that is wrong, and else the worst ten.
    std::erase_if(shown.tensors, [](const TensorResult& t) { return t.verdict == Verdict::pass; });
  }
  out << "# A " << printable(o.a, 400) << "\n# B " << printable(o.b, 400) << "\n# contract "
      << options.contract.name << ", " << o.layers << " layers: relative L2 up to "
      << relative_limit(options) << '\n';
  table.head();
  table.row(shown);
  int64_t wrong = 0;
  int64_t marginal = 0;
  for (const TensorResult& t : result.tensors) {
    wrong += t.verdict == Verdict::fail ? 1 : 0;
    marginal += t.verdict == Verdict::marginal ? 1 : 0;
  }
  out << result.tensors.size() << " tensors: " << wrong << " FAIL, " << marginal << " MARGINAL\n";
  RunInfo info = run_info(0);
  info.contract = options.contract.name;
  if (json) {
    json->write(json_report(info, {result}));
    json->close();
  }
  if (junit) {
    junit->write(junit_report({result}, o.strict));
    junit->close();
  }
  return exit_status({result}, o.strict);
}

}  // namespace

void add_compare_command(CLI::App& app, int& status) {
  auto options = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand(
      "compare", "Are two runs, A.safetensors and B.safetensors, as close as correct ones are?");
  command->add_option("A", options->a, "The run to trust, for instance on one rank")->required();
  command->add_option("B", options->b, "The other, with the same tensors")->required();
  add_text(*command, "--contract", options->contract,
           "The precision contract of both: a name or a JSON file; default bf16");
  add_integer(*command, "--layers", options->layers, 1, 10000,
              "Layers whose roundings meet in a tensor; default 1");
  add_integer(*command, "--terms", options->terms, 1, int64_t{1} << 40,
              "Terms of the longest sum behind an element; default 4096");
  command->add_flag("--strict", options->strict, "As for verify")->disable_flag_override();
  command->add_flag("-v,--verbose", options->verbose, "Tensors that pass, too")
      ->disable_flag_override();
  add_text(*command, "--json", options->json, "Write one JSON document; - is standard output");
  add_text(*command, "--junit", options->junit, "Write JUnit XML; - is standard output");
  command->callback([options, &status] { status = compare(*options); });
}

}  // namespace bdlm
