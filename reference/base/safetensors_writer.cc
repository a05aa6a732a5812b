#include "reference/base/safetensors_writer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "reference/base/error.h"
#include "reference/base/json_file.h"
#include "reference/base/small_float.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are copied as they are");

/// Values that are rounded at a time.
constexpr size_t piece_values = size_t{1} << 15;

bool is_utf8(const std::string& text) {
  try {
    static_cast<void>(Json(text).dump());
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

std::string place(const std::string& source, std::string_view name) {
  return join(source, ": tensor '", printable(name), "'");
}

/// Bytes of the data, after checking everything about the tensor but its neighbours.
int64_t checked_bytes(const TensorSpec& spec, const std::string& source) {
  const std::string fault = tensor_name_fault(spec.name);
  require(fault.empty(), source, ": the tensor name '", printable(spec.name), "' ", fault);
  require(is_utf8(spec.name), source, ": the tensor name '", printable(spec.name),
          "' is not UTF-8");
  require(static_cast<int64_t>(spec.shape.size()) <= safetensors_dims, place(source, spec.name),
          " has ", spec.shape.size(), " dimensions; allowed are ", safetensors_dims);
  for (const int64_t dim : spec.shape) {
    require(dim >= 0, place(source, spec.name), " has a dimension of ", dim,
            "; allowed are 0 and above");
  }
  const auto bytes = tensor_bytes(spec.dtype, spec.shape);
  require(bytes.has_value(), place(source, spec.name), " has more than 2^63 - 1 bytes");
  return *bytes;
}

/// The value's bytes, appended.
template <class T>
void put(T value, std::vector<std::byte>& out) {
  const size_t at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &value, sizeof(T));
}

}  // namespace

SafetensorsLayout lay_out_safetensors(std::vector<TensorSpec> tensors,
                                      const TensorMetadata& metadata, const std::string& source) {
  SafetensorsLayout out;
  std::sort(tensors.begin(), tensors.end(), [](const TensorSpec& a, const TensorSpec& b) {
    return std::pair(-element_bytes(a.dtype), std::string_view(a.name)) <
           std::pair(-element_bytes(b.dtype), std::string_view(b.name));
  });
  Json document = Json::object();
  int64_t end = 0;
  for (TensorSpec& spec : tensors) {
    const int64_t bytes = checked_bytes(spec, source);
    const int64_t begin = end;
    require(!__builtin_add_overflow(begin, bytes, &end), source,
            ": the tensors have more than 2^63 - 1 bytes");
    require(!document.contains(spec.name), place(source, spec.name), " occurs twice");
    document[spec.name] = {
        {"dtype", name(spec.dtype)}, {"shape", spec.shape}, {"data_offsets", {begin, end}}};
    out.tensors.push_back({std::move(spec.name), spec.dtype, std::move(spec.shape), begin, bytes});
  }
  for (const auto& [key, value] : metadata) {
    require(is_utf8(key) && is_utf8(value), source, ": metadata '", printable(key),
            "' is not UTF-8");
    document["__metadata__"][key] = value;
  }
  std::string text = document.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const int64_t longest = SafetensorsLimits().header_bytes;
  require(static_cast<int64_t>(text.size()) <= longest, source, ": names and metadata make ",
          text.size(), " bytes of header; allowed are ", longest);
  for (int i = 0; i < 8; ++i) {
    out.header += static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i));
  }
  out.header += text;
  return out;
}

std::vector<std::byte> rounded_bytes(DType dtype, std::span<const double> values,
                                     const std::string& place) {
  require(dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16,
          place, " is ", name(dtype), "; values are rounded to F64, F32, F16 and BF16 only");
  std::vector<std::byte> out;
  out.reserve(values.size() * static_cast<size_t>(element_bytes(dtype)));
  const auto check_finite = [&](double value, double rounded) {
    if (std::isinf(rounded) && !std::isinf(value)) {
      throw InputError(
          join(place, ": ", Json(value).dump(), " is beyond the largest value of ", name(dtype)));
    }
  };
  for (const double value : values) {
    if (dtype == DType::f64) {
      put(value, out);
    } else if (dtype == DType::f32) {
      const auto rounded = static_cast<float>(value);
      check_finite(value, rounded);
      put(rounded, out);
    } else {
      const bool f16 = dtype == DType::f16;
      const uint16_t pattern = f16 ? round_to_f16(value) : round_to_bf16(value);
      check_finite(value, f16 ? f16_value(pattern) : bf16_value(pattern));
      put(pattern, out);
    }
  }
  return out;
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::vector<TensorSpec> tensors,
                                     const TensorMetadata& metadata)
    : file_(path), shown_(printable(path, 400)) {
  SafetensorsLayout layout = lay_out_safetensors(std::move(tensors), metadata, shown_);
  tensors_ = std::move(layout.tensors);
  file_.write(layout.header);
}

const TensorInfo& SafetensorsWriter::next(std::string_view name, int64_t bytes) const {
  size_t at = at_;
  int64_t written = written_;
  // Complete tensors are passed over; empty ones have nothing to write and may be named or not.
  while (at < tensors_.size() && written == tensors_[at].bytes && tensors_[at].name != name) {
    ++at;
    written = 0;
  }
  require(at < tensors_.size(), place(shown_, name), ": all tensors are written");
  const TensorInfo& info = tensors_[at];
  require(info.name == name, place(shown_, name), " is not the next one; that is '",
          printable(info.name), "', of which ", written, " of ", info.bytes, " bytes are written");
  require(0 <= bytes && bytes <= info.bytes - written, place(shown_, name), ": ", bytes,
          " bytes are appended to ", written, "; it has ", info.bytes);
  return info;
}

void SafetensorsWriter::append_bytes(std::string_view name, const void* data, int64_t bytes) {
  const TensorInfo& info = next(name, bytes);
  const auto at = static_cast<size_t>(&info - tensors_.data());
  written_ = at == at_ ? written_ : 0;
  at_ = at;
  file_.write(data, bytes);
  written_ += bytes;
}

void SafetensorsWriter::append_rounded(std::string_view name, std::span<const double> values) {
  for (size_t done = 0; done < values.size();) {
    const auto piece = values.subspan(done, std::min(piece_values, values.size() - done));
    const auto count = static_cast<int64_t>(values.size() - done);
    const TensorInfo& info = next(name, 0);
    next(name, count * element_bytes(info.dtype));
    const auto bytes = rounded_bytes(info.dtype, piece, place(shown_, name));
    append_bytes(name, bytes.data(), static_cast<int64_t>(bytes.size()));
    done += piece.size();
  }
}

void SafetensorsWriter::commit() {
  for (size_t at = at_; at < tensors_.size(); ++at) {
    const int64_t written = at == at_ ? written_ : 0;
    require(written == tensors_[at].bytes, place(shown_, tensors_[at].name),
            " is incomplete: ", written, " of ", tensors_[at].bytes, " bytes are written");
  }
  file_.commit();
}

void write_safetensors(const std::string& path, const std::vector<TensorData>& tensors,
                       const TensorMetadata& metadata) {
  std::vector<TensorSpec> specs;
  std::map<std::string_view, const TensorData*> by_name;
  for (const TensorData& tensor : tensors) {
    specs.push_back(tensor.spec);
    by_name[tensor.spec.name] = &tensor;
  }
  SafetensorsWriter writer(path, std::move(specs), metadata);
  for (const TensorInfo& info : writer.tensors()) {
    const std::vector<std::byte>& bytes = by_name.at(info.name)->bytes;
    require(static_cast<int64_t>(bytes.size()) == info.bytes,
            place(printable(path, 400), info.name), " comes with ", bytes.size(),
            " bytes; its shape has ", info.bytes);
    writer.append_bytes(info.name, bytes.data(), info.bytes);
  }
  writer.commit();
}

}  // namespace bdlm
