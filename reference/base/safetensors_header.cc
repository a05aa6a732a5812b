#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "reference/base/error.h"
#include "reference/base/json_file.h"
#include "reference/base/safetensors.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

constexpr int64_t highest = std::numeric_limits<int64_t>::max();

struct DTypeRow {
  DType dtype;
  const char* name;
  int64_t bytes;
};
constexpr std::array<DTypeRow, 10> dtype_rows = {{{DType::f64, "F64", 8},
                                                  {DType::f32, "F32", 4},
                                                  {DType::f16, "F16", 2},
                                                  {DType::bf16, "BF16", 2},
                                                  {DType::i64, "I64", 8},
                                                  {DType::i32, "I32", 4},
                                                  {DType::i16, "I16", 2},
                                                  {DType::i8, "I8", 1},
                                                  {DType::u8, "U8", 1},
                                                  {DType::boolean, "BOOL", 1}}};

const DTypeRow& row(DType dtype) {
  return dtype_rows.at(static_cast<size_t>(dtype));
}

/// [2, 3]
std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    out += join(i == 0 ? "" : ", ", shape[i]);
  }
  return out + "]";
}

/// An integer of [0, 2^63), as JSON writes integers: 3, not 3.0.
std::optional<int64_t> as_count(const Json& value) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(highest)) ||
      value.get<int64_t>() < 0) {
    return std::nullopt;
  }
  return value.get<int64_t>();
}

/// Reads the value of one tensor's key. `at` is how messages begin.
class EntryReader {
 public:
  EntryReader(const Json& entry, std::string at) : entry_(entry), at_(std::move(at)) {}

  TensorInfo read(int64_t data_bytes) const {
    if (!entry_.is_object()) {
      fail("its entry is ", shown(entry_),
           "; allowed is an object of dtype, shape and data_offsets");
    }
    TensorInfo out;
    out.dtype = dtype();
    out.shape = shape();
    read_offsets(data_bytes, out);
    if (entry_.size() != 3) {
      for (const auto& [key, value] : entry_.items()) {
        if (key != "dtype" && key != "shape" && key != "data_offsets") {
          fail("key '", printable(key), "' is unknown; known are dtype, shape, data_offsets");
        }
      }
    }
    return out;
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw FileError(join(at_, ": ", parts...));
  }

  const Json& get(const char* key) const {
    const auto it = entry_.find(key);
    if (it == entry_.end()) {
      fail("key '", key, "' is missing");
    }
    return *it;
  }

  DType dtype() const {
    const Json& value = get("dtype");
    const auto found =
        value.is_string() ? find_dtype(value.get_ref<const std::string&>()) : std::nullopt;
    if (!found) {
      fail("dtype is ", shown(value), "; allowed are ", dtype_names());
    }
    return *found;
  }

  std::vector<int64_t> shape() const {
    const Json& value = get("shape");
    if (!value.is_array() || static_cast<int64_t>(value.size()) > safetensors_dims) {
      fail("shape is ", shown(value), "; allowed is an array of at most ", safetensors_dims);
    }
    std::vector<int64_t> out;
    for (const Json& dim : value) {
      const auto count = as_count(dim);
      if (!count) {
        fail("shape[", out.size(), "] is ", shown(dim), "; allowed is an integer from 0 to ",
             highest);
      }
      out.push_back(*count);
    }
    return out;
  }

  void read_offsets(int64_t data_bytes, TensorInfo& out) const {
    const Json& value = get("data_offsets");
    if (!value.is_array() || value.size() != 2) {
      fail("data_offsets is ", shown(value), "; allowed is an array of 2, [begin, end]");
    }
    std::array<int64_t, 2> range = {};
    for (size_t i = 0; i < 2; ++i) {
      const auto count = as_count(value[i]);
      if (!count || *count > data_bytes) {
        fail("data_offsets[", i, "] is ", shown(value[i]), "; allowed is an integer from 0 to ",
             data_bytes, ", the bytes of all data");
      }
      range[i] = *count;
    }
    const auto bytes = tensor_bytes(out.dtype, out.shape);
    if (!bytes) {
      fail("shape ", shape_text(out.shape), " of ", name(out.dtype), " is too large; allowed are ",
           highest, " bytes");
    }
    if (range[1] - range[0] != *bytes) {
      fail("data_offsets are [", range[0], ", ", range[1], "], ", range[1] - range[0],
           " bytes; shape ", shape_text(out.shape), " of ", name(out.dtype), " has ", *bytes);
    }
    out.offset = range[0];
    out.bytes = *bytes;
  }

  const Json& entry_;
  std::string at_;
};

TensorMetadata read_metadata(const Json& value, const std::string& source) {
  if (!value.is_object()) {
    throw FileError(
        join(source, ": __metadata__ is ", shown(value), "; allowed is an object of strings"));
  }
  TensorMetadata out;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      throw FileError(join(source, ": key '", printable(key), "' of __metadata__ is ", shown(text),
                           "; allowed is a string"));
    }
    out.emplace(key, text.get_ref<const std::string&>());
  }
  return out;
}

/// Every byte of the data belongs to one tensor. Empty tensors lie at the boundaries of others.
void check_ranges(const std::vector<TensorInfo>& tensors, int64_t data_bytes,
                  const std::string& source) {
  std::vector<const TensorInfo*> order;
  for (const TensorInfo& tensor : tensors) {
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
  });
  int64_t end = 0;
  const TensorInfo* before = nullptr;
  for (const TensorInfo* tensor : order) {
    if (tensor->offset < end) {
      throw FileError(join(source, ": tensor '", printable(tensor->name), "' begins at byte ",
                           tensor->offset, ", inside tensor '", printable(before->name),
                           "', which ends at ", end));
    }
    if (tensor->offset > end) {
      throw FileError(join(source, ": bytes ", end, " to ", tensor->offset,
                           " of the data belong to no tensor; tensor '", printable(tensor->name),
                           "' begins after them"));
    }
    end = tensor->offset + tensor->bytes;
    before = tensor;
  }
  require<FileError>(end == data_bytes, source, ": bytes ", end, " to ", data_bytes,
                     " of the data belong to no tensor");
}

}  // namespace

const char* name(DType dtype) {
  return row(dtype).name;
}

int64_t element_bytes(DType dtype) {
  return row(dtype).bytes;
}

std::optional<DType> find_dtype(std::string_view name) {
  for (const DTypeRow& row : dtype_rows) {
    if (name == row.name) {
      return row.dtype;
    }
  }
  return std::nullopt;
}

std::string dtype_names() {
  std::vector<std::string> names;
  for (const DTypeRow& row : dtype_rows) {
    names.emplace_back(row.name);
  }
  return listed(names);
}

std::optional<int64_t> tensor_bytes(DType dtype, const std::vector<int64_t>& shape) {
  int64_t bytes = element_bytes(dtype);
  bool empty = false;
  for (const int64_t dim : shape) {
    if (dim < 0 || (dim > 0 && __builtin_mul_overflow(bytes, dim, &bytes))) {
      return std::nullopt;
    }
    empty = empty || dim == 0;
  }
  return empty ? 0 : bytes;
}

std::string tensor_name_fault(std::string_view name) {
  if (name.empty()) {
    return "is empty";
  }
  if (name == "__metadata__") {
    return "is kept for metadata";
  }
  for (size_t i = 0; i < name.size(); ++i) {
    const auto byte = static_cast<unsigned char>(name[i]);
    // U+0080 to U+009F are control characters too: in UTF-8, c2 80 to c2 9f.
    const bool upper = byte == 0xc2 && i + 1 < name.size() &&
                       (static_cast<unsigned char>(name[i + 1]) & 0xe0) == 0x80;
    if (byte < 0x20 || byte == 0x7f || upper) {
      return join("has a control character at byte ", i);
    }
  }
  return {};
}

SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes,
                                           const std::string& source) {
  const size_t last = text.find_last_not_of(' ');
  require<FileError>(last != std::string_view::npos && text.front() == '{' && text[last] == '}',
                     source,
                     ": the header is no JSON object that begins with '{' and ends with '}' and "
                     "spaces");
  // An object of objects of arrays.
  const JsonLimits limits = {static_cast<int64_t>(text.size()), 3};
  const Json document = parse_json(text, source + ": header", limits);
  SafetensorsHeader out;
  for (const auto& [key, entry] : document.items()) {
    if (key == "__metadata__") {
      out.metadata = read_metadata(entry, source);
      continue;
    }
    const std::string fault = tensor_name_fault(key);
    require<FileError>(fault.empty(), source, ": the tensor name '", printable(key), "' ", fault);
    TensorInfo info =
        EntryReader(entry, join(source, ": tensor '", printable(key), "'")).read(data_bytes);
    info.name = key;
    out.tensors.push_back(std::move(info));
  }
  check_ranges(out.tensors, data_bytes, source);
  return out;
}

}  // namespace bdlm
