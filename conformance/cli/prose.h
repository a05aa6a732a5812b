#pragma once

#include <string>

namespace bdlm {

/// The text of golden/text/prose.txt, built in so that the program needs no file.
const std::string& prose();

}  // namespace bdlm
