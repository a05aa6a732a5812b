#include "reference/base/safetensors_writer.h"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

#include "reference/base/error.h"
#include "reference/base/test_files.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(safetensors_writer)

namespace {

using testing::contents, testing::has, testing::message;

namespace fs = std::filesystem;
using std::string_literals::operator""s;

/// A folder for one file.
struct Directory : testing::Directory {
  std::string file() const { return (path / "t.safetensors").string(); }
  bool empty() const { return fs::is_empty(path); }
};

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> out(text.size());
  std::memcpy(out.data(), text.data(), text.size());
  return out;
}

// 8 + 264 bytes of header, then w (8 bytes an element), b.f, b.h, y: put together by hand.
const std::string golden =
    "\x08\x01\0\0\0\0\0\0"
    R"({"__metadata__":{"a":"1","b":"\"\n"},)"
    R"("b.f":{"data_offsets":[8,16],"dtype":"F32","shape":[2]},)"
    R"("b.h":{"data_offsets":[16,18],"dtype":"BF16","shape":[1,1]},)"
    R"("w":{"data_offsets":[0,8],"dtype":"I64","shape":[]},)"
    R"("y":{"data_offsets":[18,21],"dtype":"BOOL","shape":[3]}})"
    "   "
    "\xfd\xff\xff\xff\xff\xff\xff\xff"
    "\x00\x00\x80\x3f\x00\x00\x20\xc0"
    "\x80\x3f"
    "\x01\x00\x01"s;

const std::vector<TensorData> golden_tensors = {
    {{"y", DType::boolean, {3}}, bytes_of("\1\0\1"s)},
    {{"b.h", DType::bf16, {1, 1}}, bytes_of("\x80\x3f")},
    {{"b.f", DType::f32, {2}}, bytes_of("\x00\x00\x80\x3f\x00\x00\x20\xc0"s)},
    {{"w", DType::i64, {}}, bytes_of("\xfd\xff\xff\xff\xff\xff\xff\xff")}};
const TensorMetadata golden_metadata = {{"b", "\"\n"}, {"a", "1"}};

// The order in which tensors are given does not matter.
BOOST_AUTO_TEST_CASE(golden_bytes) {
  const Directory dir;
  write_safetensors(dir.file(), golden_tensors, golden_metadata);
  BOOST_TEST(contents(dir.file()) == golden);
  write_safetensors(dir.file(), {golden_tensors.rbegin(), golden_tensors.rend()}, golden_metadata);
  BOOST_TEST(contents(dir.file()) == golden);
  const SafetensorsFile f(dir.file());
  BOOST_TEST((f.metadata() == golden_metadata));
  for (const TensorData& tensor : golden_tensors) {
    BOOST_TEST((f.bytes(tensor.spec.name) == tensor.bytes));
    BOOST_TEST((f.tensor(tensor.spec.name).shape == tensor.spec.shape));
    BOOST_TEST((f.tensor(tensor.spec.name).dtype == tensor.spec.dtype));
  }
  write_safetensors(dir.file(), {});
  BOOST_TEST(contents(dir.file()) == "\x08\0\0\0\0\0\0\0{}      "s);
}

// read(write(t)) = t for any tensors, and (offset of t) mod (bytes of an element) = 0
BOOST_AUTO_TEST_CASE(random_tensors_there_and_back) {
  const Directory dir;
  std::mt19937_64 random(3);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % uint64_t(n)); };
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::vector<TensorData> tensors;
    const int64_t count = below(12);
    for (int64_t i = 0; i < count; ++i) {
      TensorData tensor;
      tensor.spec.name = join("layer.", below(100), "\xc3\xa9\"\\/", i);
      tensor.spec.dtype = static_cast<DType>(below(10));
      for (int64_t dims = below(4); dims > 0; --dims) {
        tensor.spec.shape.push_back(below(9));
      }
      tensor.bytes.resize(*tensor_bytes(tensor.spec.dtype, tensor.spec.shape));
      for (std::byte& byte : tensor.bytes) {
        byte = static_cast<std::byte>(random());
      }
      tensors.push_back(std::move(tensor));
    }
    write_safetensors(dir.file(), tensors, {{"repeat", join(repeat)}});
    const SafetensorsFile f(dir.file());
    BOOST_TEST(static_cast<int64_t>(f.tensors().size()) == count);
    for (const TensorData& tensor : tensors) {
      const TensorInfo& info = f.tensor(tensor.spec.name);
      BOOST_TEST((info.dtype == tensor.spec.dtype && info.shape == tensor.spec.shape));
      BOOST_TEST((f.bytes(info.name) == tensor.bytes));
      BOOST_TEST(info.offset % element_bytes(info.dtype) == 0);
    }
    uint64_t length = 0;
    std::memcpy(&length, contents(dir.file()).data(), 8);
    BOOST_TEST(length % 8 == 0u);
  }
}

// Pieces of any size make the same file as one.
BOOST_AUTO_TEST_CASE(pieces) {
  const Directory dir;
  {
    SafetensorsWriter writer(dir.file(),
                             {{"w", DType::i64, {}},
                              {"y", DType::boolean, {3}},
                              {"b.h", DType::bf16, {1, 1}},
                              {"b.f", DType::f32, {2}}},
                             golden_metadata);
    std::vector<std::string> order;
    for (const TensorInfo& info : writer.tensors()) {
      order.push_back(info.name);
    }
    BOOST_TEST((order == std::vector<std::string>{"w", "b.f", "b.h", "y"}));
    BOOST_TEST(has(message<InputError>([&] { writer.append_rounded("w", std::vector<double>{1}); }),
                   "is I64"));
    writer.append_bytes("w", "\xfd\xff\xff", 3);
    BOOST_TEST(has(message<InputError>([&] { writer.append_bytes("b.f", "", 0); }),
                   "tensor 'b.f' is not the next one; that is 'w', of which 3 of 8 bytes are "
                   "written"));
    BOOST_TEST(has(message<InputError>([&] { writer.append_bytes("w", "123456", 6); }),
                   "tensor 'w': 6 bytes are appended to 3; it has 8"));
    writer.append_bytes("w", "\xff\xff\xff\xff\xff", 5);
    BOOST_TEST(has(message<InputError>([&] { writer.append_bytes("w", "1", 1); }),
                   "appended to 8; it has 8"));
    writer.append_rounded("b.f", std::vector<double>{1});
    BOOST_TEST(has(message<InputError>([&] { writer.commit(); }),
                   "tensor 'b.f' is incomplete: 4 of 8 bytes are written"));
    BOOST_TEST(has(message<InputError>([&] {
                     writer.append_rounded("b.f", std::vector<double>{1, 2});
                   }),
                   "8 bytes are appended to 4"));
    writer.append_rounded("b.f", std::vector<double>{-2.5});
    BOOST_TEST(
        has(message<InputError>([&] { writer.append_bytes("y", "1", 1); }), "that is 'b.h'"));
    // 1 + 2^-8 is a tie and goes to the even 1.
    writer.append_rounded("b.h", std::vector<double>{1 + 0x1p-8});
    BOOST_TEST(
        has(message<InputError>([&] { writer.commit(); }), "tensor 'y' is incomplete: 0 of 3"));
    writer.append_bytes("y", "\1\0\1", 3);
    BOOST_TEST(has(message<InputError>([&] { writer.append_bytes("w", "1", 1); }),
                   "all tensors are written"));
    BOOST_TEST(!fs::exists(dir.file()));
    writer.commit();
  }
  BOOST_TEST(contents(dir.file()) == golden);
}

BOOST_AUTO_TEST_CASE(empty_tensors_need_not_be_named) {
  const Directory dir;
  SafetensorsWriter writer(dir.file(), {{"a", DType::u8, {0}},
                                        {"b", DType::u8, {1}},
                                        {"c", DType::u8, {3, 0}},
                                        {"d", DType::u8, {1}},
                                        {"e", DType::u8, {0}}});
  writer.append_bytes("b", "x", 1);
  writer.append_bytes("c", nullptr, 0);
  BOOST_CHECK_THROW(writer.append_bytes("c", "x", 1), InputError);
  writer.append_bytes("d", "y", 1);
  writer.commit();
  const SafetensorsFile f(dir.file());
  BOOST_TEST(f.tensors().size() == 5u);
  BOOST_TEST((f.bytes("d") == bytes_of("y")));
}

BOOST_AUTO_TEST_CASE(nothing_is_left_of_an_unfinished_file) {
  const Directory dir;
  { SafetensorsWriter writer(dir.file(), {{"a", DType::u8, {1}}}); }
  BOOST_TEST(dir.empty());
  BOOST_TEST(has(message<InputError>([&] {
                   write_safetensors(dir.file(), {{{"a", DType::f32, {2}}, bytes_of("1234")}});
                 }),
                 "tensor 'a' comes with 4 bytes; its shape has 8"));
  BOOST_TEST(dir.empty());
}

BOOST_AUTO_TEST_CASE(what_a_reader_would_refuse_is_not_written) {
  const auto refusal = [](const std::vector<TensorSpec>& tensors,
                          const TensorMetadata& metadata = {}) {
    return message<InputError>([&] { lay_out_safetensors(tensors, metadata, "f"); });
  };
  BOOST_TEST(refusal({{"", DType::u8, {}}}) == "f: the tensor name '' is empty");
  BOOST_TEST(refusal({{"__metadata__", DType::u8, {}}}) ==
             "f: the tensor name '__metadata__' is kept for metadata");
  BOOST_TEST(has(refusal({{"a\tb", DType::u8, {}}}), "'a\\tb' has a control character at byte 1"));
  BOOST_TEST(has(refusal({{"a\xff", DType::u8, {}}}), "is not UTF-8"));
  BOOST_TEST(has(refusal({}, {{"a", "\xc3"}}), "metadata 'a' is not UTF-8"));
  BOOST_TEST(has(refusal({{"a", DType::u8, {}}, {"a", DType::f64, {}}}), "'a' occurs twice"));
  BOOST_TEST(has(refusal({{"a", DType::u8, {2, -1}}}), "tensor 'a' has a dimension of -1"));
  const int64_t half = int64_t{1} << 62;
  BOOST_TEST(has(refusal({{"a", DType::u8, {half, 2}}}), "more than 2^63 - 1 bytes"));
  BOOST_TEST(has(refusal({{"a", DType::u8, {half}}, {"b", DType::u8, {half}}}),
                 "f: the tensors have more than 2^63 - 1 bytes"));
  BOOST_TEST(has(refusal({{"a", DType::u8, std::vector<int64_t>(65, 1)}}), "65 dimensions"));
  BOOST_TEST(has(refusal({}, {{"a", std::string(size_t{1} << 24, 'x')}}), "bytes of header"));
}

// rounded(x) = the nearest value of the dtype; a finite x never becomes infinite unnoticed
BOOST_AUTO_TEST_CASE(values_are_rounded_once) {
  const auto rounded = [](DType dtype, double x) {
    return rounded_bytes(dtype, std::vector<double>{x}, "t");
  };
  const double above_tie = 1 + 0x1p-24 + 0x1p-50;
  BOOST_TEST((rounded(DType::f32, above_tie) == bytes_of("\x01\0\x80\x3f"s)));
  BOOST_TEST((rounded(DType::f32, 1 + 0x1p-24) == bytes_of("\0\0\x80\x3f"s)));
  BOOST_TEST((rounded(DType::f64, 1 + 0x1p-52) == bytes_of("\1\0\0\0\0\0\xf0\x3f"s)));
  // Through a float this would be the tie 1 + 2^-8, and even.
  BOOST_TEST((rounded(DType::bf16, 1 + 0x1p-8 + 0x1p-30) == bytes_of("\x81\x3f")));
  BOOST_TEST((rounded(DType::f16, 65519) == bytes_of("\xff\x7b")));
  BOOST_TEST((rounded(DType::f16, INFINITY) == bytes_of("\0\x7c"s)));
  BOOST_TEST((rounded(DType::bf16, -INFINITY) == bytes_of("\x80\xff")));
  BOOST_TEST(
      (rounded(DType::f16, std::numeric_limits<double>::quiet_NaN()) == bytes_of("\0\x7e"s)));
  BOOST_TEST(message<InputError>([&] { rounded(DType::f16, 65520); }) ==
             "t: 65520.0 is beyond the largest value of F16");
  BOOST_TEST(
      has(message<InputError>([&] { rounded(DType::bf16, -3.4e38); }), "largest value of BF16"));
  BOOST_TEST(has(message<InputError>([&] { rounded(DType::f32, 1e39); }), "largest value of F32"));
  BOOST_TEST(
      has(message<InputError>([&] { rounded(DType::i32, 1); }), "t is I32; values are rounded to"));
}

BOOST_AUTO_TEST_CASE(many_values_are_rounded_in_pieces) {
  const Directory dir;
  std::mt19937_64 random(5);
  std::vector<double> values(100001);
  for (double& value : values) {
    value = std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 40) - 84);
  }
  SafetensorsWriter writer(dir.file(), {{"t", DType::f32, {100001}}});
  writer.append_rounded("t", std::span(values).first(5));
  writer.append_rounded("t", std::span(values).subspan(5));
  writer.commit();
  const auto got = SafetensorsFile(dir.file()).read<float>("t");
  BOOST_REQUIRE(got.size() == values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    BOOST_REQUIRE_EQUAL(got[i], static_cast<float>(values[i]));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
