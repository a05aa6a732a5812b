#include "conformance/golden/golden_file.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "conformance/judge/limits.h"
#include "reference/base/error.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

TensorMetadata metadata_of(const GoldenCase& c, const GoldenVector& vector) {
  TensorMetadata out = vector.parameters;
  out["id"] = c.id;
  out["family"] = c.family();
  out["contract"] = c.contract;
  return out;
}

TensorData tensor(const std::string& name, const OutputTensor& t, DType dtype,
                  const std::vector<double>& values) {
  return {{name, dtype, t.shape}, rounded_bytes(dtype, values, name)};
}

/// Whether a stored float is the given double but for the last digits of a float, or too small for
/// one.
bool close(double stored, double made) {
  return std::abs(stored - made) <= limits::golden_bound * std::abs(made) + limits::flush_to_zero;
}

void require_tensor(const SafetensorsFile& file, const std::string& path, const std::string& name,
                    DType dtype, const std::vector<int64_t>& shape) {
  const TensorInfo* info = file.find(name);
  require<FileError>(info != nullptr, printable(path, 400), ": tensor '", printable(name),
                     "' is missing");
  require<FileError>(info->dtype == dtype && info->shape == shape, printable(path, 400),
                     ": tensor '", name, "' is ", bdlm::name(info->dtype), " of ", info->elements(),
                     " elements; the vector has ", bdlm::name(dtype), " of another shape or dtype");
}

}  // namespace

std::vector<std::byte> bytes_of(const InputTensor& input) {
  if (input.dtype != DType::i64 && input.dtype != DType::u8) {
    return rounded_bytes(input.dtype, input.values, input.name);
  }
  std::vector<std::byte> out;
  const auto size = static_cast<size_t>(element_bytes(input.dtype));
  for (const double x : input.values) {
    const auto value = static_cast<int64_t>(x);
    std::byte bytes[8];
    std::memcpy(bytes, &value, sizeof value);
    out.insert(out.end(), bytes, bytes + size);
  }
  return out;
}

std::string golden_path(const std::string& folder, const GoldenCase& c) {
  return join(folder, '/', c.family(), '/', c.id, ".safetensors");
}

void write_golden_file(const std::string& path, const GoldenCase& c, const GoldenVector& vector,
                       Making making) {
  std::vector<TensorData> tensors;
  for (const InputTensor& input : vector.inputs) {
    tensors.push_back({{input.name, input.dtype, input.shape}, bytes_of(input)});
  }
  if (making == Making::all) {
    for (const OutputTensor& t : vector.outputs) {
      tensors.push_back(tensor("expected." + t.name, t, DType::f64, t.value));
      tensors.push_back(tensor("h." + t.name, t, DType::f32, t.bound));
      if (!t.deviation.empty()) {
        tensors.push_back(tensor("sigma." + t.name, t, DType::f32, t.deviation));
      }
    }
  }
  write_safetensors(path, tensors, metadata_of(c, vector));
}

std::vector<OutputTensor> read_golden_outputs(const SafetensorsFile& file,
                                              const std::string& path) {
  constexpr std::string_view prefix = "expected.";
  std::vector<OutputTensor> out;
  for (const TensorInfo& info : file.tensors()) {
    if (info.name.rfind(prefix, 0) != 0) {
      continue;
    }
    OutputTensor t{info.name.substr(prefix.size()), info.shape, {}, {}, {}};
    const auto get = [&](const std::string& name, DType dtype) {
      require_tensor(file, path, name, dtype, t.shape);
      return file.read<double>(name);
    };
    t.value = get(info.name, DType::f64);
    t.bound = get("h." + t.name, DType::f32);
    if (file.find("sigma." + t.name) != nullptr) {
      t.deviation = get("sigma." + t.name, DType::f32);
    }
    out.push_back(std::move(t));
  }
  return out;
}

const OutputTensor& find_output(const std::vector<OutputTensor>& outputs, const std::string& name,
                                const std::string& path) {
  for (const OutputTensor& t : outputs) {
    if (t.name == name) {
      return t;
    }
  }
  throw FileError(
      join(printable(path, 400), ": tensor 'expected.", printable(name), "' is missing"));
}

std::vector<std::string> compare_golden_file(const std::string& path, const GoldenCase& c,
                                             const GoldenVector& vector) {
  const SafetensorsFile file(path);
  std::vector<std::string> out;
  const auto differs = [&](const auto&... parts) { out.push_back(join(c.id, ": ", parts...)); };
  size_t tensors = vector.inputs.size();
  for (const InputTensor& input : vector.inputs) {
    require_tensor(file, path, input.name, input.dtype, input.shape);
    const std::vector<std::byte> stored = file.bytes(input.name);
    const std::vector<std::byte> made = bytes_of(input);
    for (size_t i = 0; i < made.size(); ++i) {
      if (stored[i] != made[i]) {
        differs("input '", input.name, "' differs, first in byte ", i);
        break;
      }
    }
  }
  const std::vector<OutputTensor> stored = read_golden_outputs(file, path);
  for (const OutputTensor& b : vector.outputs) {
    const OutputTensor& a = find_output(stored, b.name, path);
    if (a.shape != b.shape || a.deviation.size() != b.deviation.size()) {
      differs("expected.", b.name, " has another shape, or a sigma too few or too many");
      continue;
    }
    tensors += b.deviation.empty() ? 2 : 3;
    for (size_t i = 0; i < b.value.size(); ++i) {
      // Bits: the sign of a zero and NaN count, too.
      if (std::bit_cast<uint64_t>(a.value[i]) != std::bit_cast<uint64_t>(b.value[i])) {
        differs("expected.", b.name, "[", i, "] is ", number_text(a.value[i]),
                ", made again it is ", number_text(b.value[i]));
        break;
      }
    }
    for (size_t i = 0; i < b.bound.size(); ++i) {
      if (!close(a.bound[i], b.bound[i])) {
        differs("h.", b.name, "[", i, "] is ", a.bound[i], ", made again it is ", b.bound[i]);
        break;
      }
    }
    for (size_t i = 0; i < b.deviation.size(); ++i) {
      if (!close(a.deviation[i], b.deviation[i])) {
        differs("sigma.", b.name, "[", i, "] is ", a.deviation[i], ", made again it is ",
                b.deviation[i]);
        break;
      }
    }
  }
  if (file.tensors().size() != tensors) {
    differs("the file has ", file.tensors().size(), " tensors; the vector has ", tensors);
  }
  if (file.metadata() != metadata_of(c, vector)) {
    differs("the file's metadata differ");
  }
  return out;
}

}  // namespace bdlm
