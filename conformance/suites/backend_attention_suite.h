#pragma once
// T4: attention of a backend under its precision contract.

#include <vector>

#include "conformance/suites/backend_suite.h"

namespace bdlm {

std::vector<BackendCase> backend_attention_cases(const Selection& selection);

}  // namespace bdlm
