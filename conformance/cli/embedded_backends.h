#pragma once
// Backends by name: those that are part of this program, and shared libraries.

#include <memory>
#include <string>
#include <vector>

#include "conformance/plugin/backend.h"

namespace bdlm {

/// "cpu", "cpu-bf16"; none where the program was built without them.
std::vector<std::string> embedded_backend_names();

/// An embedded backend, or the plug-in in that file. Throws InputError as Backend does.
std::unique_ptr<Backend> find_backend(const std::string& name_or_path);

}  // namespace bdlm
