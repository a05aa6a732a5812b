// read_contract: what it accepts is written so that it reads back as the same contract.

#include <nlohmann/json.hpp>
#include <optional>

#include "conformance/fuzz/fuzz_input.h"
#include "conformance/judge/contract.h"
#include "reference/base/error.h"

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const bdlm::MemoryFile file(data, size);
  std::optional<bdlm::Contract> contract;
  const bool accepted = bdlm::run_reader(file.path(), size, 1 << 20, 64,
                                         [&] { contract = bdlm::read_contract(file.path()); });
  if (accepted) {
    const bdlm::Json json = bdlm::parse_json(bdlm::write_contract(*contract), "text");
    bdlm::expect(bdlm::parse_contract(bdlm::view(json, "text")) == *contract,
                 "what was accepted reads back as another contract");
    bdlm::expect(contract->chain >= 0, "a chain of fewer than no terms");
    for (const bdlm::Dtype site : {contract->p, contract->ds, contract->o, contract->partial_o,
                                   contract->gradient, contract->reduce}) {
      bdlm::expect(bdlm::unit_roundoff(site) >= bdlm::unit_roundoff(contract->accumulate),
                   "a site is more precise than the accumulation");
    }
  }
  return 0;
}
