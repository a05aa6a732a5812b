// parse_json: what it accepts is what a plain strict parser reads, and its text reads back as the
// same value.

#include <nlohmann/json.hpp>
#include <optional>

#include "conformance/fuzz/fuzz_input.h"
#include "reference/base/error.h"
#include "reference/base/json_file.h"

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using bdlm::Json;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string source = "f.json";
  std::optional<Json> document;
  // "" is 3 bytes of text with its comma, and 16 of a value and 32 of a string in memory, twice
  // while an array grows.
  const bool accepted = bdlm::run_reader(source, size, 1 << 16, 64,
                                         [&] { document = bdlm::parse_json(text, source); });
  const Json plain = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (accepted) {
    bdlm::expect(!plain.is_discarded(), "accepted, though not JSON");
    bdlm::expect(plain == *document, "read as another value");
    bdlm::expect(bdlm::parse_json(document->dump(), source) == *document,
                 "the text of the value reads as another value");
    // 60 bytes, each of which may become \xNN, and "...".
    bdlm::expect(bdlm::shown(*document).size() <= 60 * 4 + 3, "a value is not cut in messages");
  }
  // The limits of the text itself.
  bdlm::run_reader(source, size, 1 << 16, 64, [&] {
    bdlm::parse_json(text, source, {static_cast<int64_t>(size / 2), 3});
  });
  return 0;
}
