#pragma once
// A golden vector as a safetensors file.
//
//   NAME            an input, in its own dtype
//   expected.NAME   F64: the right value of the output NAME
//   h.NAME          F32: H, how far from it a result may be under the contract
//   sigma.NAME      F32: the deviation that the contract's roundings predict, where it is known
//
// The metadata hold "id", "family", "contract" and the parameters of the vector, as text.

#include <string>
#include <vector>

#include "conformance/golden/golden_vector.h"

namespace bdlm {

/// The bytes of an input as its dtype has them, little-endian.
std::vector<std::byte> bytes_of(const InputTensor& input);

/// Where a vector is stored below a folder of vectors.
std::string golden_path(const std::string& folder, const GoldenCase& c);

void write_golden_file(const std::string& path, const GoldenCase& c, const GoldenVector& vector,
                       Making making);

/// The outputs of a golden file in the order of their names. Throws FileError, one line, where an
/// expected.NAME has another dtype than F64, or no h.NAME of its shape.
std::vector<OutputTensor> read_golden_outputs(const SafetensorsFile& file, const std::string& path);
/// One of them. Throws FileError, naming `path`, where it is missing.
const OutputTensor& find_output(const std::vector<OutputTensor>& outputs, const std::string& name,
                                const std::string& path);

/// What differs between a file and the vector that it should hold, a line each: bits of inputs and
/// of right values, H and sigma by limits::golden_bound. Empty where nothing does.
std::vector<std::string> compare_golden_file(const std::string& path, const GoldenCase& c,
                                             const GoldenVector& vector);

}  // namespace bdlm
