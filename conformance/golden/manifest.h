#pragma once
// golden/v1/manifest.json: what the vectors are, where they lie, which bytes they have.

#include <string>
#include <vector>

#include "conformance/golden/golden_vector.h"
#include "reference/base/json_file.h"

namespace bdlm {

struct ManifestTensor {
  std::string name;
  DType dtype = DType::f64;
  std::vector<int64_t> shape;
  friend bool operator==(const ManifestTensor&, const ManifestTensor&) = default;
};

struct ManifestEntry {
  std::string id;
  std::string family;
  /// Below the manifest's folder; empty where the vector is made on demand.
  std::string file;
  /// Of the file; empty where there is none.
  std::string sha256;
  /// Of the inputs' bytes, one tensor after another in the order listed; and of the right values'.
  std::string inputs_sha256, outputs_sha256;
  std::string contract;
  std::vector<std::string> flags;
  std::vector<ManifestTensor> inputs, outputs;
  friend bool operator==(const ManifestEntry&, const ManifestEntry&) = default;
};

/// Everything about one case as the manifest has it, but for the file's own digest.
nlohmann::ordered_json manifest_json(const GoldenCase& c, const GoldenVector& vector);

/// The whole manifest, ending with a newline. `entries` are those of manifest_json with "sha256".
std::string manifest_text(const std::vector<nlohmann::ordered_json>& entries);

/// Reads a manifest that nobody vouches for. Throws InputError, one line with `source`, on missing,
/// unknown or wrong keys, on ids and files that occur twice or could leave the folder, on digests
/// that are none, tensors too large to count, flags and contracts that the manifest does not
/// define.
std::vector<ManifestEntry> parse_manifest(const JsonView& json);
std::vector<ManifestEntry> read_manifest(const std::string& path);

}  // namespace bdlm
