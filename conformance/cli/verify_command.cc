// bdlm verify: runs the cases of the suite and judges them.

#include <iostream>

#include "conformance/cli/command.h"
#include "conformance/cli/options.h"
#include "conformance/cli/run_in_order.h"
#include "conformance/cli/verify_options.h"
#include "conformance/cli/verify_outputs.h"
#include "conformance/cli/verify_report.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

/// The tiers that need no backend.
int verify_reference(const VerifyOptions& options) {
  for (const std::string& tier : options.tiers) {
    require(tier != "T1" && (tier < "T4" || tier > "T7" || tier.size() != 2), "tier ", tier,
            " judges a backend; name one with --backend");
  }
  std::vector<SuiteCase> cases = shard_of(select_cases(selection_of(options)), options.shard);
  if (options.list) {
    return list_cases(options, cases);
  }
  VerifyReport report(options);
  report.begin(
      {{"err_over_bound", "err/bound", "largest difference over its bound; above 1 is wrong"},
       {"differing", "differing", "exact values that are not equal; above 0 is wrong"}},
      72);
  {
    Progress progress(!options.verbose);
    size_t done = 0;
    const auto judge = [&](size_t i) { return run_case(cases[i]); };
    run_in_order(cases.size(), job_count(options.jobs), judge, [&](CaseResult result) {
      const SuiteCase& c = cases[done++];
      report.take(std::move(result), c.scheme);
      progress.show(join(done, " of ", cases.size(), " cases, at ", c.tier, ' ', c.id));
    });
  }
  return report.finish(run_info(1));
}

int verify(const VerifyOptions& options) {
  check_report_paths({options.json, options.jsonl, options.junit});
  require(options.golden.empty() || !options.outputs.empty(),
          "--golden is the folder of vectors of --outputs, which is missing");
  if (!options.outputs.empty()) {
    return verify_outputs(options);
  }
  if (!options.backend.empty()) {
    return verify_backend(options);
  }
  require(options.contract.empty(), "--contract is of a backend; name one with --backend");
  require(options.seeds == 1, "--seeds is of a backend; name one with --backend");
  require(options.timeout == 0, "--timeout is of a backend; name one with --backend");
  return verify_reference(options);
}

}  // namespace

void add_verify_command(CLI::App& app, int& status) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand("verify", "Run the cases of the suite and judge them");
  add_text(*command, "--level", options->level, "quick (the default), gate or full");
  add_text(*command, "--case", options->ids, "Only ids that match this glob");
  add_words(*command, "--tier", options->tiers,
            "Only these tiers: T0, T2, T3, or with --backend T1, T4, T5, T6, T7");
  add_words(*command, "--scheme", options->schemes,
            "Only these schemes: cp, bp, csbp, and with --backend monolithic");
  add_integers(*command, "--ranks", options->ranks, 1, 1024, "Only these numbers of ranks");
  add_text(*command, "--shard", options->shard, "The i-th of n parts: i/n");
  add_integer(*command, "--jobs", options->jobs, 0, 256,
              "Cases beside each other; 0, the default, is one a core, and one with --backend");
  add_text(*command, "--backend", options->backend,
           "Judge this backend: an embedded one (cpu) or a shared library (./libmine.so)");
  add_text(*command, "--contract", options->contract,
           "Judge it by this contract, a file or a built-in name, in place of its own");
  add_number(*command, "--timeout", options->timeout, 0.001, 86400,
             "Seconds for a case of a backend; 60 is the default, and 300 from gate on");
  add_integer(*command, "--seeds", options->seeds, 1, 1000000,
              "Random data of a backend: each Gaussian case and step with the seeds 1 to this");
  add_text(*command, "--known-failures", options->known_failures,
           "A JSON file of failures that do not fail the run: {\"ID\": {\"reason\": \"...\", "
           "\"expires\": \"2027-03-31\"}}");
  add_text(*command, "--outputs", options->outputs,
           "Judge the outputs for golden vectors in this folder, ID.safetensors, instead");
  add_text(*command, "--golden", options->golden,
           "With --outputs: the folder of vectors; default golden/v1, or made anew");
  command
      ->add_flag(
          "--strict", options->strict,
          "MISTRUSTED and SKIPPED fail too, UNSUPPORTED where the entry is not NULL, and a run "
          "that judges nothing")
      ->disable_flag_override();
  command->add_flag("--list", options->list, "Print the ids and run nothing")
      ->disable_flag_override();
  command->add_flag("-v,--verbose", options->verbose, "A line for every tensor")
      ->disable_flag_override();
  add_text(*command, "--json", options->json, "Write one JSON document; - is standard output");
  add_text(*command, "--jsonl", options->jsonl,
           "Write a JSON line a case; - is standard output, where they go as they come");
  add_text(*command, "--junit", options->junit, "Write JUnit XML; - is standard output");
  command->callback([options, &status] { status = verify(*options); });
}

}  // namespace bdlm
