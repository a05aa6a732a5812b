#pragma once
// Arguments that are wrong, of which a backend has to say so.

#include <vector>

#include "conformance/suites/backend_suite.h"

namespace bdlm {

/// T6: each a call that has to return an error other than BDLM_OK, with a message, and to leave
/// inputs and surroundings alone.
std::vector<BackendCase> invalid_call_cases();

}  // namespace bdlm
