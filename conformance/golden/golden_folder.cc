#include "conformance/golden/golden_folder.h"

#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "conformance/golden/golden_file.h"
#include "conformance/golden/manifest.h"
#include "conformance/golden/sha256.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

/// Largest size of all stored files together.
constexpr int64_t most_bytes = int64_t{8} << 20;

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  require<FileError>(!error, printable(path, 400), ": cannot make the folder: ", error.message());
}

/// Files below the folder that belong to no case.
std::vector<std::string> strangers(const std::string& folder) {
  std::set<std::string> known;
  for (const GoldenCase& c : golden_cases()) {
    if (c.stored) {
      known.insert(fs::path(golden_path(folder, c)).lexically_normal().string());
    }
  }
  std::vector<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().lexically_normal().string();
    if (entry.is_regular_file() && entry.path().extension() == ".safetensors" &&
        known.count(path) == 0) {
      out.push_back(join(printable(path, 400), ": no vector of this version has this file"));
    }
  }
  return out;
}

/// Calls f(i) for i < count on all threads; the first error is thrown once all have ended.
template <class F>
void for_each(size_t count, const F& f) {
  std::exception_ptr error;
#pragma omp parallel for schedule(dynamic, 1)
  for (size_t i = 0; i < count; ++i) {
    try {
      f(i);
    } catch (...) {
#pragma omp critical(golden_error)
      error = error ? error : std::current_exception();
    }
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

struct Checked {
  OrderedJson json;
  std::vector<std::string> differences;
};

Checked check_one(const GoldenCase& c, const std::string& folder, const ManifestEntry* entry) {
  Checked out;
  const GoldenVector vector = make_vector(c);
  out.json = manifest_json(c, vector);
  if (entry == nullptr || !c.stored) {
    return out;
  }
  const std::string path = golden_path(folder, c);
  try {
    const std::string digest = sha256_of_file(path);
    if (digest != entry->sha256) {
      out.differences.push_back(
          join(c.id, ": the file's digest is ", digest, ", the manifest has ", entry->sha256));
    }
    const std::vector<std::string> more = compare_golden_file(path, c, vector);
    out.differences.insert(out.differences.end(), more.begin(), more.end());
  } catch (const Error& error) {
    out.differences.emplace_back(error.what());
  }
  return out;
}

}  // namespace

int64_t write_golden_folder(const std::string& folder) {
  const std::vector<GoldenCase>& cases = golden_cases();
  for (const GoldenCase& c : cases) {
    make_folder(join(folder, '/', c.family()));
  }
  std::vector<OrderedJson> entries(cases.size());
  for_each(cases.size(), [&](size_t i) {
    const GoldenCase& c = cases[i];
    const GoldenVector vector = make_vector(c);
    entries[i] = manifest_json(c, vector);
    if (c.stored) {
      write_golden_file(golden_path(folder, c), c, vector, Making::all);
      entries[i]["sha256"] = sha256_of_file(golden_path(folder, c));
    }
  });
  int64_t bytes = 0;
  for (const GoldenCase& c : cases) {
    bytes += c.stored ? static_cast<int64_t>(fs::file_size(golden_path(folder, c))) : 0;
  }
  require(bytes <= most_bytes, "the stored vectors have ", bytes, " bytes; allowed are ",
          most_bytes);
  write_file(folder + "/manifest.json", manifest_text(entries));
  return bytes;
}

std::vector<std::string> check_golden_folder(const std::string& folder, const std::string& glob,
                                             bool all) {
  const std::string path = folder + "/manifest.json";
  const std::vector<ManifestEntry> manifest = read_manifest(path);
  const Json document = read_json_file(path);
  std::map<std::string, std::pair<const ManifestEntry*, Json>> by_id;
  for (size_t i = 0; i < manifest.size(); ++i) {
    by_id[manifest[i].id] = {&manifest[i], document["vectors"][i]};
  }
  const std::vector<GoldenCase> cases = select_golden_cases(glob, !all);
  std::vector<std::string> out = strangers(folder);
  if (manifest.size() != golden_cases().size()) {
    out.push_back(join("the manifest has ", manifest.size(), " vectors; version 1 has ",
                       golden_cases().size()));
  }
  std::vector<Checked> checks(cases.size());
  for_each(cases.size(), [&](size_t i) {
    const auto it = by_id.find(cases[i].id);
    checks[i] = check_one(cases[i], folder, it == by_id.end() ? nullptr : it->second.first);
  });
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto it = by_id.find(cases[i].id);
    if (it == by_id.end()) {
      out.push_back(cases[i].id + ": the manifest does not have it");
      continue;
    }
    checks[i].json["sha256"] = it->second.second["sha256"];
    const Json made = checks[i].json;
    for (const auto& [key, value] : made.items()) {
      if (it->second.second.value(key, Json()) != value) {
        out.push_back(join(cases[i].id, ": the manifest's '", key, "' differs"));
      }
    }
    out.insert(out.end(), checks[i].differences.begin(), checks[i].differences.end());
  }
  return out;
}

}  // namespace bdlm
