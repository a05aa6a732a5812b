// read_config_json: what it accepts is a model whose numbers fit together.

#include <optional>

#include "conformance/fuzz/fuzz_input.h"
#include "reference/base/error.h"
#include "reference/layout/config_json.h"

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const bdlm::MemoryFile file(data, size);
  std::optional<bdlm::Architecture> model;
  // 65536 layers may be asked for in a few bytes; beside those, what JSON takes.
  const bool accepted = bdlm::run_reader(file.path(), size, 32 << 20, 64,
                                         [&] { model = bdlm::read_config_json(file.path()); });
  if (accepted) {
    bdlm::check(*model);
    bdlm::expect(model->name == file.path(), "the model's name is not its file");
    for (int64_t layer = 0; layer < model->layer_count(); ++layer) {
      const bdlm::LayerShape& shape = model->layers[static_cast<size_t>(layer)];
      bdlm::expect(shape.kv_elements() > 0, "a layer without keys");
      bdlm::expect(shape.rope_fraction >= 0 && shape.rope_fraction <= 1, "a fraction beyond 1");
      static_cast<void>(model->rule(layer));
    }
  }
  return 0;
}
