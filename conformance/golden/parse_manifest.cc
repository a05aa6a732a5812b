// Reading a manifest: strict, so that what passes here can be relied on.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "conformance/golden/manifest.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

constexpr int64_t most_elements = int64_t{1} << 32;

std::string digest(const JsonView& json, const char* key) {
  const std::string text = get_string(json, key);
  const bool hex = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  require(text.size() == 64 && hex, place(get(json, key)), " is '", printable(text, 80),
          "'; a digest is 64 hexadecimal digits in lower case");
  return text;
}

/// A name that is a file name on every system, too.
std::string plain_name(const JsonView& json, const char* key) {
  const std::string text = get_string(json, key);
  const bool plain = !text.empty() && text.size() <= 200 && text[0] != '.' &&
                     std::all_of(text.begin(), text.end(), [](char c) {
                       return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                              (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-';
                     });
  require(plain, place(get(json, key)), " is '", printable(text, 80),
          "'; allowed are up to 200 letters, digits, '.', '_' and '-', the first no '.'");
  return text;
}

std::vector<ManifestTensor> tensors(const JsonView& json, const char* key) {
  std::vector<ManifestTensor> out;
  std::set<std::string> names;
  for (const JsonView& at : get_array(json, key)) {
    reject_unknown_keys(at, {"name", "dtype", "shape"});
    ManifestTensor t;
    t.name = get_string(at, "name");
    const std::string fault = tensor_name_fault(t.name);
    require(fault.empty(), place(get(at, "name")), ": ", fault);
    require(names.insert(t.name).second, place(at), " names tensor '", printable(t.name),
            "' a second time");
    const std::string dtype = get_string(at, "dtype");
    const std::optional<DType> found = find_dtype(dtype);
    require(found.has_value(), place(get(at, "dtype")), " is '", printable(dtype, 40),
            "'; known are ", dtype_names());
    t.dtype = *found;
    int64_t elements = 1;
    for (const JsonView& size : get_array(at, "shape")) {
      t.shape.push_back(as_int(size, 0, most_elements));
      elements *= t.shape.back();
      require(elements <= most_elements, place(get(at, "shape")), " has more than ", most_elements,
              " elements");
    }
    require(tensor_bytes(t.dtype, t.shape).has_value(), place(get(at, "shape")),
            " has too many elements beside a 0 to be counted");
    out.push_back(std::move(t));
  }
  return out;
}

void check_intervals(const JsonView& json) {
  if (!find(json, "intervals")) {
    return;
  }
  const int64_t length = get_int(json, "mask.length", 1, most_elements);
  for (const JsonView& run : get_array(json, "intervals")) {
    const std::vector<JsonView> x = as_array(run);
    require(x.size() == 6, place(run), " has ", x.size(),
            " numbers; it is [stream, first row, end, stream of the keys, begin, end]");
    for (const size_t stream : {size_t{0}, size_t{3}}) {
      as_int(x[stream], 0, 1);
    }
    for (const size_t begin : {size_t{1}, size_t{4}}) {
      const int64_t first = as_int(x[begin], 0, length);
      as_int(x[begin + 1], first, length);
    }
  }
}

ManifestEntry entry_of(const JsonView& json, const std::set<std::string>& flags,
                       const std::set<std::string>& contracts) {
  reject_unknown_keys(
      json, {"id",       "family",   "file",     "sha256", "inputs_sha256", "outputs_sha256",
             "contract", "seed",     "flags",    "inputs", "outputs",       "data",
             "scale",    "schemes",  "mask",     "factor", "decomposition", "intervals",
             "softcap",  "excluded", "upstream", "model",  "objective"});
  ManifestEntry e;
  e.id = plain_name(json, "id");
  e.family = get_string(json, "family");
  const std::vector<std::string> families{"attention", "merge", "cross_entropy", "step"};
  require(std::find(families.begin(), families.end(), e.family) != families.end(),
          place(get(json, "family")), " is '", printable(e.family, 40), "'; known are ",
          listed(families));
  if (find(json, "file")) {
    e.file = get_string(json, "file");
    const std::string right = e.family + "/" + e.id + ".safetensors";
    require(e.file == right, place(get(json, "file")), " is '", printable(e.file, 80),
            "'; it must be '", right, "'");
    e.sha256 = digest(json, "sha256");
  } else {
    require(!find(json, "sha256"), place(json), " has key 'sha256', though the vector has no file");
  }
  e.inputs_sha256 = digest(json, "inputs_sha256");
  e.outputs_sha256 = digest(json, "outputs_sha256");
  e.contract = get_string(json, "contract");
  require(contracts.count(e.contract) == 1, place(get(json, "contract")), " is '",
          printable(e.contract, 60), "', which key 'contracts' does not define");
  get_int(json, "seed", 0, std::numeric_limits<int64_t>::max());
  for (const JsonView& at : get_array(json, "flags")) {
    e.flags.push_back(as_string(at));
    require(flags.count(e.flags.back()) == 1, place(at), " is '", printable(e.flags.back(), 60),
            "', which key 'flags' does not define");
  }
  require(!e.flags.empty(), place(get(json, "flags")), " is empty; a vector has at least one flag");
  e.inputs = tensors(json, "inputs");
  e.outputs = tensors(json, "outputs");
  require(!e.inputs.empty() && !e.outputs.empty(), place(json),
          " must have at least one input and one output");
  check_intervals(json);
  return e;
}

}  // namespace

std::vector<ManifestEntry> parse_manifest(const JsonView& json) {
  reject_unknown_keys(json, {"format", "contracts", "flags", "vectors"});
  const std::string format = get_string(json, "format");
  require(format == "bdlm-golden-1", place(get(json, "format")), " is '", printable(format, 40),
          "'; allowed is bdlm-golden-1");
  std::set<std::string> contracts;
  for (const auto& [name, contract] : members(get_object(json, "contracts"))) {
    const Contract read = parse_contract(contract);
    require(read.name == name, place(contract), " has the name '", read.name,
            "'; it must be that of its key");
    contracts.insert(name);
  }
  std::set<std::string> flags;
  for (const auto& [name, flag] : members(get_object(json, "flags"))) {
    reject_unknown_keys(flag, {"class", "what_goes_wrong", "effect"});
    for (const char* key : {"class", "what_goes_wrong", "effect"}) {
      get_string(flag, key);
    }
    flags.insert(name);
  }
  std::vector<ManifestEntry> out;
  std::set<std::string> ids;
  for (const JsonView& at : get_array(json, "vectors")) {
    out.push_back(entry_of(at, flags, contracts));
    require(ids.insert(out.back().id).second, place(at), " has the id '", out.back().id,
            "' a second time");
  }
  return out;
}

std::vector<ManifestEntry> read_manifest(const std::string& path) {
  const Json document = read_json_file(path);
  return parse_manifest(view(document, printable(path, 400)));
}

}  // namespace bdlm
