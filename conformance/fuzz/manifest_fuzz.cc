// parse_manifest: what it accepts has ids and files that stay in their folder, digests, and tensors
// that can be counted.

#include <nlohmann/json.hpp>
#include <set>

#include "conformance/fuzz/fuzz_input.h"
#include "conformance/golden/manifest.h"
#include "reference/base/error.h"

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using bdlm::expect;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string source = "f.json";
  std::vector<bdlm::ManifestEntry> entries;
  const bool accepted = bdlm::run_reader(source, size, 1 << 20, 512, [&] {
    const bdlm::Json document = bdlm::parse_json(text, source);
    entries = bdlm::parse_manifest(bdlm::view(document, source));
  });
  if (!accepted) {
    return 0;
  }
  std::set<std::string> ids;
  for (const bdlm::ManifestEntry& e : entries) {
    expect(ids.insert(e.id).second, "an id occurs twice");
    expect(e.id.find('/') == std::string::npos && e.id[0] != '.', "an id is a path");
    expect(e.file.empty() || e.file == e.family + "/" + e.id + ".safetensors",
           "a file lies elsewhere");
    expect(e.file.empty() == e.sha256.empty(), "a digest without its file");
    expect(e.inputs_sha256.size() == 64 && e.outputs_sha256.size() == 64, "digests");
    for (const auto* tensors : {&e.inputs, &e.outputs}) {
      expect(!tensors->empty(), "no tensor");
      for (const bdlm::ManifestTensor& t : *tensors) {
        expect(bdlm::tensor_bytes(t.dtype, t.shape).has_value(), "a tensor too large to count");
      }
    }
  }
  return 0;
}
