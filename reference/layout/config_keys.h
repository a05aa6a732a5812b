#pragma once
// Which keys of a config.json are known, and which would change the model's function unnoticed.

#include <string>
#include <vector>

#include "reference/base/json_file.h"

namespace bdlm {

/// Null, false and what is empty switch nothing on.
bool is_off(const Json& value);

bool is_one_of(const std::string& key, const std::vector<std::string>& keys);

/// Throws InputError, with file, key, value and what is allowed, for whatever could change the
/// function of a model and has no place in Architecture: functions that are not computed, unless
/// neutral, and unknown keys that are not off. `root` is the document, `model` the text model's
/// object.
void reject_what_is_not_represented(const JsonView& root, const JsonView& model,
                                    const std::string& model_type);

}  // namespace bdlm
