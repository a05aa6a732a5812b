// Golden files: the outputs of what is accepted have a value, a bound and, or not, a deviation for
// every element; a comparison with a vector ends in words.

#include <optional>

#include "conformance/fuzz/fuzz_input.h"
#include "conformance/golden/golden_file.h"
#include "reference/base/error.h"

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using bdlm::expect;
  const bdlm::MemoryFile memory(data, size);
  const std::string& path = memory.path();
  std::optional<std::vector<bdlm::OutputTensor>> outputs;
  bdlm::run_reader(path, size, 1 << 20, 64,
                   [&] { outputs = bdlm::read_golden_outputs(bdlm::SafetensorsFile(path), path); });
  if (outputs) {
    for (const bdlm::OutputTensor& t : *outputs) {
      expect(t.bound.size() == t.value.size(), "a value without its bound");
      expect(t.deviation.empty() || t.deviation.size() == t.value.size(), "a sigma is missing");
    }
  }
  static const bdlm::GoldenCase& c =
      bdlm::find_golden_case("merge-h1k1-d4-parts2-rows18-fp32-edges-s1");
  static const bdlm::GoldenVector vector = bdlm::make_vector(c);
  bdlm::run_reader(path, size, 1 << 20, 64, [&] { bdlm::compare_golden_file(path, c, vector); });
  return 0;
}
