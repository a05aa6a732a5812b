#include "reference/base/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "reference/base/error.h"
#include "reference/base/small_float.h"
#include "reference/base/text.h"

namespace bdlm {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are copied as they are");

constexpr int64_t length_bytes = 8;
/// Bytes that a conversion reads at a time; a multiple of every element.
constexpr int64_t piece_bytes = int64_t{1} << 18;

/// Whether a T holds every value of an S.
template <class T, class S>
constexpr bool holds_all() {
  if constexpr (std::is_floating_point_v<S> && !std::is_floating_point_v<T>) {
    return false;
  } else {
    return std::numeric_limits<S>::digits <= std::numeric_limits<T>::digits &&
           (std::is_unsigned_v<S> || std::is_signed_v<T>);
  }
}

/// Copies `count` elements that are stored as an S.
template <class T, class S>
void convert(const std::byte* from, int64_t count, T* to) {
  for (int64_t i = 0; i < count; ++i) {
    S value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(S)), sizeof(S));
    // An int8_t is a number here, not a character. NOLINTNEXTLINE(bugprone-signed-char-misuse)
    to[i] = static_cast<T>(value);
  }
}

template <class T, double (*Value)(uint16_t)>
void convert_small(const std::byte* from, int64_t count, T* to) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t pattern;
    std::memcpy(&pattern, from + 2 * i, 2);
    to[i] = static_cast<T>(Value(pattern));
  }
}

template <class T>
using Conversion = void (*)(const std::byte* from, int64_t count, T* to);

template <class T, class S>
constexpr Conversion<T> conversion_from() {
  if constexpr (holds_all<T, S>()) {
    return convert<T, S>;
  } else {
    return nullptr;
  }
}

/// Null where T does not hold every value of the dtype.
template <class T>
Conversion<T> conversion(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return conversion_from<T, double>();
    case DType::f32:
      return conversion_from<T, float>();
    case DType::f16:
      return std::is_floating_point_v<T> ? convert_small<T, f16_value> : nullptr;
    case DType::bf16:
      return std::is_floating_point_v<T> ? convert_small<T, bf16_value> : nullptr;
    case DType::i64:
      return conversion_from<T, int64_t>();
    case DType::i32:
      return conversion_from<T, int32_t>();
    case DType::i16:
      return conversion_from<T, int16_t>();
    case DType::i8:
      return conversion_from<T, int8_t>();
    case DType::u8:
      return conversion_from<T, uint8_t>();
    case DType::boolean:
      return std::is_same_v<T, uint8_t> ? conversion_from<T, uint8_t>() : nullptr;
  }
  return nullptr;
}

template <class T>
const char* type_name() {
  if constexpr (std::is_same_v<T, double>) {
    return "double";
  } else if constexpr (std::is_same_v<T, float>) {
    return "float";
  } else {
    constexpr std::array<const char*, 4> names = {"int8_t", "int16_t", "int32_t", "int64_t"};
    return std::is_unsigned_v<T> ? "uint8_t" : names[std::countr_zero(sizeof(T))];
  }
}

template <class T>
std::vector<T> allocate(int64_t count, const std::string& at) {
  try {
    return std::vector<T>(static_cast<size_t>(count));
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  throw FileError(join(at, ": no memory for ", count, " elements of ", sizeof(T), " bytes"));
}

/// Closes the descriptor unless it has been taken.
struct Descriptor {
  int file;
  ~Descriptor() {
    if (file >= 0) {
      ::close(file);
    }
  }
  int take() { return std::exchange(file, -1); }
};

void read_fully(int file, int64_t offset, int64_t count, void* to, const std::string& shown) {
  auto* at = static_cast<char*>(to);
  while (count > 0) {
    const ssize_t got = ::pread(file, at, static_cast<size_t>(count), offset);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    require<FileError>(got >= 0, shown, ": cannot read: ", std::strerror(errno));
    require<FileError>(got > 0, shown, ": it has become shorter: nothing at byte ", offset);
    at += got;
    offset += got;
    count -= got;
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path, const SafetensorsLimits& limits)
    : shown_(printable(path, 400)) {
  require<FileError>(path.find('\0') == std::string::npos, shown_,
                     ": cannot open: the name has a zero byte");
  // Without waiting: a pipe that nobody writes to would never open.
  Descriptor descriptor = {::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  require<FileError>(descriptor.file >= 0, shown_, ": cannot open: ", std::strerror(errno));
  struct stat status = {};
  require<FileError>(::fstat(descriptor.file, &status) == 0, shown_,
                     ": cannot read: ", std::strerror(errno));
  require<FileError>(S_ISREG(status.st_mode), shown_, ": cannot read: not a regular file");
  const int64_t file_bytes = status.st_size;
  require<FileError>(file_bytes >= length_bytes, shown_, ": ", file_bytes,
                     " bytes; a safetensors file begins with 8 that hold the length of its header");
  std::array<unsigned char, length_bytes> raw = {};
  read_fully(descriptor.file, 0, length_bytes, raw.data(), shown_);
  uint64_t length = 0;
  for (size_t i = 0; i < raw.size(); ++i) {
    length |= static_cast<uint64_t>(raw[i]) << (8 * i);
  }
  const int64_t longest = std::min(limits.header_bytes, file_bytes - length_bytes);
  require<FileError>(
      length <= static_cast<uint64_t>(std::max<int64_t>(longest, 0)), shown_,
      ": the header's length is ", length, "; allowed are ", longest, " bytes, ",
      longest == limits.header_bytes ? "the limit for headers" : "what the file has after it");
  std::string text(static_cast<size_t>(length), '\0');
  read_fully(descriptor.file, length_bytes, static_cast<int64_t>(length), text.data(), shown_);
  data_begin_ = length_bytes + static_cast<int64_t>(length);
  header_ = parse_safetensors_header(text, file_bytes - data_begin_, shown_);
  file_ = descriptor.take();
}

SafetensorsFile::~SafetensorsFile() {
  ::close(file_);
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto it = std::lower_bound(
      header_.tensors.begin(), header_.tensors.end(), name,
      [](const TensorInfo& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return it != header_.tensors.end() && it->name == name ? &*it : nullptr;
}

const TensorInfo& SafetensorsFile::tensor(std::string_view name) const {
  const TensorInfo* found = find(name);
  if (found == nullptr) {
    std::vector<std::string> some;
    for (const TensorInfo& tensor : tensors()) {
      if (some.size() == 8) {
        some.emplace_back("...");
        break;
      }
      some.push_back(printable(tensor.name));
    }
    throw FileError(join(shown_, ": there is no tensor '", printable(name), "'; there are ",
                         tensors().size(), some.empty() ? "" : ": ", listed(some)));
  }
  return *found;
}

std::string SafetensorsFile::place(const TensorInfo& tensor) const {
  return join(shown_, ": tensor '", printable(tensor.name), "'");
}

void SafetensorsFile::read_at(int64_t offset, int64_t count, void* to) const {
  read_fully(file_, data_begin_ + offset, count, to, shown_);
}

std::vector<std::byte> SafetensorsFile::bytes(std::string_view name) const {
  const TensorInfo& info = tensor(name);
  auto out = allocate<std::byte>(info.bytes, place(info));
  read_at(info.offset, info.bytes, out.data());
  return out;
}

void SafetensorsFile::read_bytes(std::string_view name, int64_t first, int64_t count,
                                 void* to) const {
  const TensorInfo& info = tensor(name);
  require(0 <= first && 0 <= count && first <= info.bytes && count <= info.bytes - first,
          place(info), ": ", count, " bytes from byte ", first, " on are asked for; it has ",
          info.bytes);
  read_at(info.offset + first, count, to);
}

template <class T>
void SafetensorsFile::read_values(const TensorInfo& tensor, int64_t first, int64_t count,
                                  T* to) const {
  const Conversion<T> converted = conversion<T>(tensor.dtype);
  const int64_t size = element_bytes(tensor.dtype);
  std::vector<std::byte> piece(static_cast<size_t>(std::min(piece_bytes, count * size)));
  for (int64_t done = 0; done < count;) {
    const int64_t elements = std::min(count - done, piece_bytes / size);
    read_at(tensor.offset + (first + done) * size, elements * size, piece.data());
    if (tensor.dtype == DType::boolean) {
      const auto wrong = std::find_if(piece.begin(), piece.begin() + elements,
                                      [](std::byte b) { return b > std::byte{1}; });
      if (wrong != piece.begin() + elements) {
        throw FileError(join(place(tensor), ": element ", first + done + (wrong - piece.begin()),
                             " of BOOL is ", std::to_integer<int>(*wrong),
                             "; allowed are 0 and 1"));
      }
    }
    converted(piece.data(), elements, to + done);
    done += elements;
  }
}

template <class T>
std::vector<T> SafetensorsFile::read(std::string_view name, int64_t first, int64_t count) const {
  const TensorInfo& info = tensor(name);
  require<FileError>(conversion<T>(info.dtype) != nullptr, place(info), ": ",
                     bdlm::name(info.dtype), " cannot be read as ", type_name<T>(),
                     ", which does not hold all its values");
  require(0 <= first && 0 <= count && first <= info.elements() && count <= info.elements() - first,
          place(info), ": ", count, " elements from element ", first, " on are asked for; it has ",
          info.elements());
  auto out = allocate<T>(count, place(info));
  read_values(info, first, count, out.data());
  return out;
}

template <class T>
std::vector<T> SafetensorsFile::read(std::string_view name) const {
  return read<T>(name, 0, tensor(name).elements());
}

#define BDLM_READ(T)                                                        \
  template std::vector<T> SafetensorsFile::read<T>(std::string_view) const; \
  template std::vector<T> SafetensorsFile::read<T>(std::string_view, int64_t, int64_t) const
BDLM_READ(double);
BDLM_READ(float);
BDLM_READ(int64_t);
BDLM_READ(int32_t);
BDLM_READ(int16_t);
BDLM_READ(int8_t);
BDLM_READ(uint8_t);
#undef BDLM_READ

}  // namespace bdlm
