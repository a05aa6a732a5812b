// SafetensorsFile: tensors of an accepted file have the bytes of its data section, once each; they
// can be read; and what they would be written as reads back as the same tensors.

#include <algorithm>
#include <cstring>
#include <optional>

#include "conformance/fuzz/fuzz_input.h"
#include "reference/base/error.h"
#include "reference/base/safetensors.h"
#include "reference/base/safetensors_writer.h"

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace bdlm {
namespace {

constexpr size_t length_bytes = 8;

/// Reads every tensor as T, where its dtype allows.
template <class T>
void read_all(const SafetensorsFile& file, const std::string& source, size_t size) {
  for (const TensorInfo& tensor : file.tensors()) {
    std::vector<T> values;
    if (run_reader(source, size, 1 << 20, 16, [&] { values = file.read<T>(tensor.name); })) {
      expect(static_cast<int64_t>(values.size()) == tensor.elements(), "elements are missing");
    }
  }
}

void check_file(const SafetensorsFile& file, const std::string& source, std::string_view contents) {
  std::vector<TensorSpec> specs;
  int64_t bytes = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    bytes += tensor.bytes;
    specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  expect(bytes <= static_cast<int64_t>(contents.size()), "tensors larger than their file");
  const std::string_view data = contents.substr(contents.size() - static_cast<size_t>(bytes));
  for (const TensorInfo& tensor : file.tensors()) {
    expect(file.find(tensor.name) == &tensor, "a tensor is not found");
    const std::vector<std::byte> found = file.bytes(tensor.name);
    expect(static_cast<int64_t>(found.size()) == tensor.bytes &&
               (found.empty() ||
                std::memcmp(found.data(), data.data() + tensor.offset, found.size()) == 0),
           "a tensor has other bytes than the file");
  }
  read_all<double>(file, source, contents.size());
  read_all<float>(file, source, contents.size());
  read_all<int64_t>(file, source, contents.size());
  read_all<uint8_t>(file, source, contents.size());

  const SafetensorsLayout layout = lay_out_safetensors(specs, file.metadata(), source);
  expect(layout.header.size() % 8 == 0, "data are not aligned");
  const SafetensorsHeader again =
      parse_safetensors_header(std::string_view(layout.header).substr(length_bytes), bytes, source);
  expect(again.metadata == file.metadata(), "metadata are written as others");
  expect(again.tensors.size() == file.tensors().size(), "tensors are not written");
  for (size_t i = 0; i < again.tensors.size(); ++i) {
    const TensorInfo& a = again.tensors[i];
    const TensorInfo& b = file.tensors()[i];
    expect(a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.bytes == b.bytes &&
               a.offset % element_bytes(a.dtype) == 0,
           "a tensor is written as another");
  }
}

}  // namespace
}  // namespace bdlm

/// Most mutations change the length of the header's text, which then no longer is what the first 8
/// bytes say; three of four get it corrected, so that they are read further.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  if (seed % 4 != 0 && size >= bdlm::length_bytes) {
    // Data may hold braces as well: the last that is followed by spaces or by the end.
    size_t end = size;
    const size_t wanted = seed / 4 % 2 == 0 ? size : std::min<size_t>(size, 4096);
    for (size_t i = bdlm::length_bytes; i < wanted; ++i) {
      if (data[i] == '}' && (i + 1 == size || data[i + 1] != ',')) {
        end = i + 1;
      }
    }
    while (end < size && data[end] == ' ') {
      ++end;
    }
    const uint64_t length = end - bdlm::length_bytes;
    std::memcpy(data, &length, sizeof(length));
  }
  return size;
}

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const bdlm::MemoryFile memory(data, size);
  std::optional<bdlm::SafetensorsFile> file;
  const bool accepted =
      bdlm::run_reader(memory.path(), size, 1 << 16, 64, [&] { file.emplace(memory.path()); });
  if (accepted) {
    bdlm::check_file(*file, memory.path(),
                     std::string_view(reinterpret_cast<const char*>(data), size));
  }
  return 0;
}
