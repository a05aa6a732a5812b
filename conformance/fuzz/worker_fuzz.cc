// parse_message: a worker's line is one of its messages, and a case reads back as itself.

#include <optional>

#include "conformance/fuzz/fuzz_input.h"
#include "conformance/report/write_report.h"
#include "conformance/worker/protocol.h"

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const std::string source = "the worker";
  std::optional<bdlm::WorkerMessage> message;
  const bool accepted = bdlm::run_reader(source, size, 1 << 20, 128,
                                         [&] { message = bdlm::parse_message(line, source); });
  if (!accepted) {
    return 0;
  }
  if (const auto* result = std::get_if<bdlm::CaseResult>(&*message)) {
    const std::string text = bdlm::json_line(*result);
    const bdlm::WorkerMessage again = bdlm::parse_message(text, source);
    const auto* back = std::get_if<bdlm::CaseResult>(&again);
    bdlm::expect(back != nullptr, "a case reads back as another message");
    bdlm::expect(bdlm::json_line(*back) == text, "a case reads back as another one");
    bdlm::expect(!bdlm::junit_report({*result}, true).empty(), "a case without a report");
  }
  if (const auto* ready = std::get_if<bdlm::WorkerReady>(&*message)) {
    const bdlm::WorkerMessage again = bdlm::parse_message(bdlm::write_message(*ready), source);
    const auto* back = std::get_if<bdlm::WorkerReady>(&again);
    bdlm::expect(back != nullptr && back->contract == ready->contract &&
                     back->declared == ready->declared && back->backend == ready->backend,
                 "a message reads back as another one");
  }
  return 0;
}
