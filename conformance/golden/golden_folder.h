#pragma once
// golden/v1 as a whole: made, and checked against what is made anew.

#include <string>
#include <vector>

#include "conformance/golden/golden_vector.h"

namespace bdlm {

/// Writes every stored vector and the manifest of all into `folder`, which is made where it is not
/// there. Vectors are made on `jobs` threads. Returns the bytes of the stored files.
int64_t write_golden_folder(const std::string& folder);

/// What differs between `folder` and what is made anew, a line each: the manifest, digests, inputs
/// and right values bit by bit, H and sigma by tolerance, files that no case has. Vectors that are
/// not stored are made again only with `all`. Throws FileError and InputError where the manifest
/// cannot be read.
std::vector<std::string> check_golden_folder(const std::string& folder, const std::string& glob,
                                             bool all);

}  // namespace bdlm
