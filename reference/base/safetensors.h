#pragma once
// Reading tensors from safetensors files that nobody vouches for.
//
// The format: the length of the header as 8 little-endian bytes, the header, the data. The header
// is a JSON object, which begins with '{' and may end with spaces. Its keys are the tensors' names;
// each value is {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, in bytes from
// where the data begin. The key "__metadata__" may hold an object of strings. The tensors cover the
// data without overlaps or holes; their elements are little-endian, in row-major order.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bdlm {

enum class DType : uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };
/// As the format writes it: "F64", ..., "BOOL".
const char* name(DType dtype);
int64_t element_bytes(DType dtype);
/// Nothing where the format has no such dtype, or one that is not supported.
std::optional<DType> find_dtype(std::string_view name);
/// "F64, F32, ..."
std::string dtype_names();

/// Most dimensions of a tensor.
constexpr int64_t safetensors_dims = 64;

/// Bytes of a tensor without dimensions are those of one element. Nothing if a dimension is
/// negative, or if the dimensions other than 0 have more bytes together than an int64_t counts.
std::optional<int64_t> tensor_bytes(DType dtype, const std::vector<int64_t>& shape);

/// What is wrong with a tensor's name, or an empty string. Names are not empty, not "__metadata__"
/// and have no control characters.
std::string tensor_name_fault(std::string_view name);

struct TensorInfo {
  std::string name;
  DType dtype = DType::f64;
  /// Empty for a scalar.
  std::vector<int64_t> shape;
  /// From where the data begin, in bytes.
  int64_t offset = 0;
  int64_t bytes = 0;

  int64_t elements() const { return bytes / element_bytes(dtype); }
  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

using TensorMetadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  /// In the order of their names.
  std::vector<TensorInfo> tensors;
  TensorMetadata metadata;
};

/// Reads the JSON text of a header whose file has `data_bytes` bytes after it. Throws FileError,
/// one line with `source`, tensor, the value found and what is allowed, on everything that the
/// format does not allow.
SafetensorsHeader parse_safetensors_header(std::string_view text, int64_t data_bytes,
                                           const std::string& source);

struct SafetensorsLimits {
  /// Longest header, in bytes.
  int64_t header_bytes = int64_t{16} << 20;
};

/// A file whose header has been read and checked, and whose data are read on demand.
///
/// Errors are FileErrors with the path: of the constructor where the file is malformed, of the
/// others where a tensor is missing, its dtype does not fit, or the file has changed; a part
/// outside of a tensor is an InputError. Data are read rather than mapped, so that a file which
/// shrinks meanwhile is an error and no signal. Many threads may read at once.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path, const SafetensorsLimits& limits = {});
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  /// In the order of their names.
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  const TensorMetadata& metadata() const { return header_.metadata; }
  /// Null if there is none.
  const TensorInfo* find(std::string_view name) const;
  const TensorInfo& tensor(std::string_view name) const;

  /// The bytes of a whole tensor, as the file has them.
  std::vector<std::byte> bytes(std::string_view name) const;
  /// `count` of its bytes from byte `first` on, for tensors that are read in pieces.
  void read_bytes(std::string_view name, int64_t first, int64_t count, void* to) const;

  /// The elements as T: double, float, int64_t, int32_t, int16_t, int8_t or uint8_t. T must hold
  /// every value of the dtype, so that nothing is rounded or cut: F16 and BF16 can be read as float
  /// or double, I64 as int64_t alone, F64 as double alone. BOOL can be read as uint8_t and must be
  /// 0 or 1.
  template <class T>
  std::vector<T> read(std::string_view name) const;
  /// `count` of the elements from element `first` on.
  template <class T>
  std::vector<T> read(std::string_view name, int64_t first, int64_t count) const;

 private:
  std::string place(const TensorInfo& tensor) const;
  void read_at(int64_t offset, int64_t count, void* to) const;
  template <class T>
  void read_values(const TensorInfo& tensor, int64_t first, int64_t count, T* to) const;

  std::string shown_;  // the path, for messages
  int file_ = -1;
  int64_t data_begin_ = 0;
  SafetensorsHeader header_;
};

}  // namespace bdlm
