#pragma once
// Hugging Face config.json files of the dense family.

#include <string>
#include <vector>

#include "reference/layout/architecture.h"

namespace bdlm {

/// The values of `model_type` that are read: decoders with grouped-query attention, RMSNorm, SwiGLU
/// and rotary positions.
const std::vector<std::string>& config_model_types();

/// Reads a config.json into an Architecture of the family dense_gqa; a text model nested under
/// `text_config` is found. Missing keys mean what the family's usual loader takes them to mean.
/// Without `layer_types`, windows follow `use_sliding_window` (off in Qwen files that lack it) and
/// `max_window_layers`, the number of leading full layers.
///
/// Nothing that changes the function is dropped: a key is represented in the Architecture, known to
/// be unrelated, neutral (null, false, empty), or an error. What is represented is not all computed
/// by every caller: rope_type, rope_fraction, a theta of each layer, biases, attention_scale and
/// final_softcap are for callers to compute or reject.
///
/// Throws FileError if the file cannot be read or is not JSON; InputError, with file, key, value
/// and what is allowed, if the model is of another family, a value is missing or absurd, or the
/// numbers do not fit together.
Architecture read_config_json(const std::string& path);

/// As `--model` takes it: a known name, a config.json, or a directory that holds one. Throws as
/// above, and InputError, which lists the known names, if it is neither.
Architecture find_architecture(const std::string& name_or_path);

}  // namespace bdlm
