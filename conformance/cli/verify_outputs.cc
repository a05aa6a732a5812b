// bdlm verify --outputs: judges outputs that a user's program has written for golden vectors.

#include "conformance/cli/verify_outputs.h"

#include <filesystem>
#include <utility>

#include "conformance/cli/command.h"
#include "conformance/cli/verify_report.h"
#include "conformance/golden/judge_outputs.h"
#include "reference/base/error.h"

namespace bdlm {

int verify_outputs(const VerifyOptions& options) {
  const VerifyOptions none;
  for (const auto& [option, given] : {std::pair{"--backend", options.backend != none.backend},
                                      {"--contract", options.contract != none.contract},
                                      {"--seeds", options.seeds != none.seeds},
                                      {"--timeout", options.timeout != none.timeout},
                                      {"--level", options.level != none.level},
                                      {"--tier", options.tiers != none.tiers},
                                      {"--scheme", options.schemes != none.schemes},
                                      {"--ranks", options.ranks != none.ranks},
                                      {"--shard", options.shard != none.shard},
                                      {"--jobs", options.jobs != none.jobs},
                                      {"--list", options.list != none.list}}) {
    require(!given, option, " says nothing about files; --outputs goes with --golden, --case, ",
            "--known-failures, --strict and reports");
  }
  OutputsOptions choice{options.outputs, options.ids, options.golden};
  const char* beside = "golden/v1";
  if (choice.golden.empty() && std::filesystem::exists(std::string(beside) + "/manifest.json")) {
    choice.golden = beside;
  }
  VerifyReport report(options);
  std::vector<CaseResult> results = judge_outputs(choice);
  report.begin(contract_columns(), 64);
  for (CaseResult& result : results) {
    report.take(std::move(result), Scheme::monolithic);
  }
  RunInfo info = run_info(1);
  info.contract = "of each vector";
  return report.finish(info);
}

}  // namespace bdlm
