// parse_plan: what it accepts can be judged without a fault of the judge's own, and is written as
// text that reads back as the same programs.

#include <nlohmann/json.hpp>
#include <optional>

#include "conformance/doors/judge_plan.h"
#include "conformance/fuzz/fuzz_input.h"
#include "reference/base/error.h"

namespace {

/// The judge's work grows with blocks times bands.
constexpr int64_t judged_blocks = 4096;

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using bdlm::expect;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string source = "f.json";
  std::optional<bdlm::PlanFile> plan;
  // 2^22 blocks of 8 bytes, twice while they grow, and a copy.
  const bool accepted = bdlm::run_reader(source, size, int64_t{1} << 27, 512, [&] {
    const bdlm::Json document = bdlm::parse_json(text, source);
    plan = bdlm::parse_plan(bdlm::view(document, source));
  });
  if (!accepted || plan->sequence.blocks() > judged_blocks) {
    return 0;
  }
  const bdlm::PlanVerdict verdict = bdlm::judge_plan(*plan);
  expect(verdict.pairs.size() == plan->plans.size(), "a rank is not judged");
  const std::string written = bdlm::write_plan(*plan);
  const bdlm::Json document = bdlm::Json::parse(written);
  const bdlm::PlanFile again = bdlm::parse_plan(bdlm::view(document, source));
  expect(bdlm::write_plan(again) == written, "programs are written as others");
  expect(bdlm::judge_plan(again).pairs == verdict.pairs, "written programs are judged otherwise");
  return 0;
}
