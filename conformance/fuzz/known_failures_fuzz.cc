// read_known_failures: what it accepts has ids, reasons, and days that come in their order.

#include <optional>

#include "conformance/fuzz/fuzz_input.h"
#include "conformance/report/known_failures.h"
#include "reference/base/error.h"

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const bdlm::MemoryFile file(data, size);
  std::optional<bdlm::KnownFailures> known;
  const bool accepted = bdlm::run_reader(file.path(), size, 1 << 20, 64,
                                         [&] { known = bdlm::read_known_failures(file.path()); });
  if (!accepted) {
    return 0;
  }
  for (const auto& [id, failure] : *known) {
    bdlm::expect(!id.empty() && id.find_first_of(" /\n\"*") == std::string::npos, "no case id");
    bdlm::expect(!failure.reason.empty(), "a failure without a reason");
    bdlm::expect(failure.expires.size() == 10, "no day");
    bdlm::CaseResult result;
    result.id = id;
    result.verdict = bdlm::Verdict::fail;
    bdlm::mark_known(result, *known, failure.expires);
    bdlm::expect(!bdlm::fails_run(result, true), "a failure is not known on its last day");
    bdlm::mark_known(result, *known, "9999-12-32");
    bdlm::expect(bdlm::fails_run(result, true), "a failure is known for ever");
  }
  return 0;
}
