#include "reference/base/safetensors.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "reference/base/error.h"
#include "reference/base/test_files.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(safetensors)

namespace {

using testing::has, testing::message;

namespace fs = std::filesystem;
using std::string_literals::operator""s;

/// A file in a folder of its own.
struct File {
  testing::Directory directory;
  explicit File(const std::string& contents) {
    std::ofstream(path(), std::ios::binary) << contents;
  }
  std::string path() const { return (directory.path / "t.safetensors").string(); }
};

std::string little_endian(uint64_t value) {
  std::string out;
  for (int i = 0; i < 8; ++i) {
    out += static_cast<char>(value >> (8 * i));
  }
  return out;
}

std::string with_length(const std::string& header, const std::string& data) {
  return little_endian(header.size()) + header + data;
}

/// The message of opening a file with these contents, without the path it begins with.
std::string refusal(const std::string& contents, const SafetensorsLimits& limits = {}) {
  const File file(contents);
  const std::string text = message<FileError>([&] { SafetensorsFile(file.path(), limits); });
  BOOST_TEST(text.rfind(file.path() + ": ", 0) == 0u, text);
  return text.size() > file.path().size() + 2 ? text.substr(file.path().size() + 2) : text;
}

std::string refusal_of(const std::string& header, const std::string& data) {
  return refusal(with_length(header, data));
}

// A file put together by hand: 0x10b = 267 bytes of header; b = {1, -2.5} as F32, a = -3 as I64, h
// = {1.0, -0.0, smallest subnormal} as F16, e empty; in the order h, e, a, b, unaligned.
const std::string golden =
    "\x0b\x01\0\0\0\0\0\0"
    R"({"__metadata__":{"format":"pt","note":"a\nb"},)"
    R"("b":{"dtype":"F32","shape":[1,2],"data_offsets":[14,22]},)"
    R"("a":{"dtype":"I64","shape":[],"data_offsets":[6,14]},)"
    R"("h":{"dtype":"F16","shape":[3],"data_offsets":[0,6]},)"
    R"("e":{"shape":[0,7],"data_offsets":[6,6],"dtype":"BF16"}})"
    "  "
    "\x00\x3c\x00\x80\x01\x00"
    "\xfd\xff\xff\xff\xff\xff\xff\xff"
    "\x00\x00\x80\x3f\x00\x00\x20\xc0"s;

BOOST_AUTO_TEST_CASE(golden_bytes) {
  const File file(golden);
  const SafetensorsFile f(file.path());
  const std::vector<TensorInfo> expected = {{"a", DType::i64, {}, 6, 8},
                                            {"b", DType::f32, {1, 2}, 14, 8},
                                            {"e", DType::bf16, {0, 7}, 6, 0},
                                            {"h", DType::f16, {3}, 0, 6}};
  BOOST_TEST((f.tensors() == expected));
  BOOST_TEST((f.metadata() == TensorMetadata{{"format", "pt"}, {"note", "a\nb"}}));
  BOOST_TEST(f.tensor("a").elements() == 1);
  BOOST_TEST(f.tensor("b").elements() == 2);
  BOOST_TEST(f.tensor("e").elements() == 0);
  BOOST_TEST((f.read<int64_t>("a") == std::vector<int64_t>{-3}));
  BOOST_TEST((f.read<double>("b") == std::vector<double>{1, -2.5}));
  BOOST_TEST((f.read<float>("b", 1, 1) == std::vector<float>{-2.5}));
  BOOST_TEST(f.read<float>("e").empty());
  const auto h = f.read<double>("h");
  BOOST_TEST((h == std::vector<double>{1, 0, 0x1p-24}));
  BOOST_TEST(std::signbit(h[1]));
  BOOST_TEST(
      (f.bytes("a") == std::vector<std::byte>({std::byte{0xfd}, std::byte{0xff}, std::byte{0xff},
                                               std::byte{0xff}, std::byte{0xff}, std::byte{0xff},
                                               std::byte{0xff}, std::byte{0xff}})));
  char two[2] = {};
  f.read_bytes("h", 3, 2, two);
  BOOST_TEST(std::string(two, 2) == "\x80\x01");
  BOOST_TEST(f.find("c") == nullptr);
  BOOST_TEST(has(message<FileError>([&] { f.tensor("c\n"); }),
                 "no tensor 'c\\n'; there are 4: a, b, e, h"));
}

BOOST_AUTO_TEST_CASE(files_without_tensors) {
  for (const char* header : {"{}", "{}      ", R"({"__metadata__":{}})"}) {
    const File file(with_length(header, ""));
    const SafetensorsFile f(file.path());
    BOOST_TEST(f.tensors().empty());
    BOOST_TEST(has(message<FileError>([&] { f.tensor("x"); }), "there are 0"));
  }
  BOOST_TEST(refusal_of("{}", "abc") == "bytes 0 to 3 of the data belong to no tensor");
}

// Every proper prefix of a file is an error, and so is a byte more.
BOOST_AUTO_TEST_CASE(every_truncation_is_an_error) {
  for (size_t n = 0; n < golden.size(); ++n) {
    BOOST_TEST_CONTEXT(n) {
      refusal(golden.substr(0, n));
    }
  }
  BOOST_TEST(refusal(golden + "x") == "bytes 22 to 23 of the data belong to no tensor");
  BOOST_TEST(has(refusal("1234567"), "7 bytes; a safetensors file begins with 8"));
}

BOOST_AUTO_TEST_CASE(the_length_of_the_header_is_bounded) {
  BOOST_TEST(refusal(little_endian(3) + "{}") ==
             "the header's length is 3; allowed are 2 bytes, what the file has after it");
  for (const uint64_t length : {uint64_t{1} << 31, uint64_t{1} << 63, ~uint64_t{0}}) {
    BOOST_TEST(has(refusal(little_endian(length) + "{}"), join("length is ", length, "; allowed")));
  }
  const std::string spaces = with_length("{}" + std::string(98, ' '), "");
  const File file(spaces);
  BOOST_CHECK_NO_THROW(SafetensorsFile(file.path(), {100}));
  BOOST_TEST(refusal(spaces, {99}) ==
             "the header's length is 100; allowed are 99 bytes, the limit for headers");
  // The default limit, 2^24.
  const std::string large = "{}" + std::string((size_t{1} << 24) - 2, ' ');
  const File at_limit(with_length(large, ""));
  BOOST_CHECK_NO_THROW(SafetensorsFile(at_limit.path()));
  BOOST_TEST(has(refusal(with_length(large + ' ', "")), "allowed are 16777216 bytes, the limit"));
}

BOOST_AUTO_TEST_CASE(headers_that_are_no_objects) {
  for (const char* header : {"", " ", "[]", "3", "null", "\"a\"", " {}", "\n{}", "{}\n", "{}\t",
                             "{", "}", "{}x", "\xef\xbb\xbf{}"}) {
    BOOST_TEST_CONTEXT(header) {
      BOOST_TEST(has(refusal_of(header, ""), "the header is no JSON object"));
    }
  }
  BOOST_TEST(has(refusal_of("{}}", ""), "header: not valid JSON"));
  BOOST_TEST(has(refusal_of("{}{}", ""), "header: not valid JSON"));
  BOOST_TEST(has(refusal_of("{\0}"s, ""), "zero byte"));
  BOOST_TEST(has(refusal_of(R"({"a":{"b":[[1]]}})", ""), "nested deeper than 3 levels"));
  const std::string a = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  BOOST_TEST(has(refusal_of("{" + a + "," + a + "}", "x"), "key 'a' occurs twice"));
  BOOST_TEST(has(refusal_of(R"({"__metadata__":{},"__metadata__":{}})", ""), "occurs twice"));
  BOOST_TEST(has(refusal_of(R"({"a":{"dtype":"U8","dtype":"U8"}})", ""), "'a.dtype' occurs twice"));
}

/// A header with one tensor "t".
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return join(R"({"t":{"dtype":)", dtype, R"(,"shape":)", shape, R"(,"data_offsets":)", offsets,
              "}}");
}

BOOST_AUTO_TEST_CASE(entries_name_tensor_value_and_what_is_allowed) {
  const std::string data(16, 'x');
  BOOST_CHECK_NO_THROW(parse_safetensors_header(one("\"F32\"", "[2,2]", "[0,16]"), 16, "f"));
  const struct {
    std::string header, expected;
  } cases[] = {
      {R"({"t":3})",
       "tensor 't': its entry is 3; allowed is an object of dtype, shape and data_offsets"},
      {R"({"t":[]})", "its entry is an array of 0;"},
      {R"({"t":{}})", "key 'dtype' is missing"},
      {R"({"t":{"dtype":"F32"}})", "key 'shape' is missing"},
      {R"({"t":{"dtype":"F32","shape":[4]}})", "key 'data_offsets' is missing"},
      {R"({"t":{"dtype":"F32","shape":[4],"data_offsets":[0,16],"x\n":1}})",
       "tensor 't': key 'x\\n' is unknown; known are dtype, shape, data_offsets"},
      {one("\"F8_E4M3\"", "[16]", "[0,16]"),
       "tensor 't': dtype is \"F8_E4M3\"; allowed are F64, F32, F16, BF16, I64, I32, I16, I8, U8, "
       "BOOL"},
      {one("\"f32\"", "[4]", "[0,16]"), "dtype is \"f32\"; allowed"},
      {one("32", "[4]", "[0,16]"), "dtype is 32; allowed"},
      {one("null", "[4]", "[0,16]"), "dtype is null; allowed"},
      {one("\"F32\"", "4", "[0,16]"), "shape is 4; allowed is an array of at most 64"},
      {one("\"F32\"", "{}", "[0,16]"), "shape is an object of 0; allowed"},
      {one("\"F32\"", "[2,-2]", "[0,16]"),
       "shape[1] is -2; allowed is an integer from 0 to 9223372036854775807"},
      {one("\"F32\"", "[4.0]", "[0,16]"), "shape[0] is 4.0; allowed is an integer"},
      {one("\"F32\"", "[\"4\"]", "[0,16]"), "shape[0] is \"4\"; allowed is an integer"},
      {one("\"F32\"", "[true]", "[0,16]"), "shape[0] is true; allowed is an integer"},
      {one("\"F32\"", "[1e1]", "[0,16]"), "shape[0] is 10.0; allowed is an integer"},
      {one("\"F32\"", "[9223372036854775808]", "[0,16]"), "shape[0] is 9223372036854775808;"},
      {one("\"F32\"", "[18446744073709551616]", "[0,16]"),
       "shape[0] is 1.8446744073709552e+19; allowed"},
      {one("\"F32\"", "[[4]]", "[0,16]"), "nested deeper"},
      // The products 2^32 2^32, 2^61 8 and (2^31 + 1) 2^31 2 wrap around to 0 or below 0.
      {one("\"U8\"", "[4294967296,4294967296]", "[0,0]"),
       "shape [4294967296, 4294967296] of U8 is too large; allowed are 9223372036854775807 bytes"},
      {one("\"F64\"", "[2305843009213693952]", "[0,0]"), "of F64 is too large"},
      {one("\"BF16\"", "[2147483649,2147483648]", "[0,16]"), "of BF16 is too large"},
      {one("\"U8\"", "[0,4294967296,4294967296]", "[0,0]"), "is too large"},
      {one("\"U8\"", "[4294967296,4294967296,0]", "[0,0]"), "is too large"},
      {one("\"F32\"", "[4]", "[0,8]"), "data_offsets are [0, 8], 8 bytes; shape [4] of F32 has 16"},
      {one("\"F32\"", "[]", "[0,16]"), "16 bytes; shape [] of F32 has 4"},
      {one("\"F32\"", "[4,0]", "[0,16]"), "16 bytes; shape [4, 0] of F32 has 0"},
      {one("\"F32\"", "[4]", "[16,0]"), "data_offsets are [16, 0], -16 bytes;"},
      {one("\"F32\"", "[4]", "[0,17]"),
       "data_offsets[1] is 17; allowed is an integer from 0 to 16, the bytes of all data"},
      {one("\"F32\"", "[4]", "[17,33]"), "data_offsets[0] is 17;"},
      {one("\"F32\"", "[4]", "[-16,0]"), "data_offsets[0] is -16;"},
      {one("\"F32\"", "[4]", "[18446744073709551600,0]"),
       "data_offsets[0] is 18446744073709551600"},
      {one("\"F32\"", "[4]", "[0]"), "data_offsets is an array of 1; allowed is an array of 2"},
      {one("\"F32\"", "[4]", "[0,8,16]"), "data_offsets is an array of 3;"},
      {one("\"F32\"", "[4]", "16"), "data_offsets is 16;"},
      {one("\"F32\"", "[4]", "[0.0,16]"), "data_offsets[0] is 0.0;"},
      {R"({"__metadata__":[]})", "__metadata__ is an array of 0; allowed is an object of strings"},
      {R"({"__metadata__":null})", "__metadata__ is null; allowed"},
      {R"({"__metadata__":{"k":1}})", "key 'k' of __metadata__ is 1; allowed is a string"},
      {R"({"__metadata__":{"a":"b","k":{}}})", "key 'k' of __metadata__ is an object of 0;"},
      {R"({"":{}})", "the tensor name '' is empty"},
      {R"({"a\nb":{}})", "the tensor name 'a\\nb' has a control character at byte 1"},
      {R"({"a\u0000":{}})", "the tensor name 'a\\x00' has a control character at byte 1"},
      {R"({"ab\u007f":{}})", "a control character at byte 2"},
      {R"({"\u009b":{}})", "a control character at byte 0"},
      {"{\"a\nb\":{}}", "header: not valid JSON"},
      {"{\"\xff\":{}}", "header: not valid JSON"},
  };
  for (const auto& [header, expected] : cases) {
    BOOST_TEST_CONTEXT(header) {
      BOOST_TEST(has(refusal_of(header, data), expected));
    }
  }
  // 64 dimensions are allowed, 65 are not.
  std::string dims = "1";
  for (int i = 1; i < 64; ++i) {
    dims += ",1";
  }
  BOOST_CHECK_NO_THROW(parse_safetensors_header(one("\"U8\"", "[" + dims + "]", "[0,1]"), 1, "f"));
  BOOST_TEST(has(refusal_of(one("\"U8\"", "[" + dims + ",1]", "[0,1]"), "x"), "an array of 65"));
  // Letters beyond ASCII are no control characters.
  BOOST_CHECK_NO_THROW(parse_safetensors_header(
      "{\"\xc2\xa0\xc3\xa9\":{\"dtype\":\"I8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, "f"));
}

/// A header of U8 tensors with these ranges.
std::string ranges(const std::vector<std::array<int, 2>>& list) {
  std::string out;
  for (size_t i = 0; i < list.size(); ++i) {
    const auto [begin, end] = list[i];
    out += join(i == 0 ? "{" : ",", "\"t", i, R"(":{"dtype":"U8","shape":[)", end - begin,
                R"(],"data_offsets":[)", begin, ",", end, "]}");
  }
  return out + "}";
}

// The ranges, in order, are [0, e1), [e1, e2), ..., [en, data).
BOOST_AUTO_TEST_CASE(ranges_cover_the_data_once) {
  const std::string data(10, 'x');
  for (const auto& list : std::vector<std::vector<std::array<int, 2>>>{{{0, 10}},
                                                                       {{4, 10}, {0, 4}},
                                                                       {{0, 0}, {0, 10}, {10, 10}},
                                                                       {{3, 3}, {3, 10}, {0, 3}},
                                                                       {{0, 10}, {0, 0}, {0, 0}}}) {
    BOOST_CHECK_NO_THROW(parse_safetensors_header(ranges(list), 10, "f"));
  }
  BOOST_TEST(refusal_of(ranges({{0, 6}, {5, 10}}), data) ==
             "tensor 't1' begins at byte 5, inside tensor 't0', which ends at 6");
  BOOST_TEST(has(refusal_of(ranges({{0, 10}, {0, 10}}), data), "begins at byte 0, inside"));
  BOOST_TEST(has(refusal_of(ranges({{0, 10}, {2, 4}}), data), "begins at byte 2, inside"));
  BOOST_TEST(has(refusal_of(ranges({{0, 10}, {5, 5}}), data), "begins at byte 5, inside"));
  BOOST_TEST(refusal_of(ranges({{6, 10}, {0, 5}}), data) ==
             "bytes 5 to 6 of the data belong to no tensor; tensor 't0' begins after them");
  BOOST_TEST(has(refusal_of(ranges({{1, 10}}), data), "bytes 0 to 1 of the data belong to no"));
  BOOST_TEST(has(refusal_of(ranges({{0, 9}}), data), "bytes 9 to 10 of the data belong to no"));
  BOOST_TEST(has(refusal_of(ranges({{0, 9}, {10, 10}}), data), "bytes 9 to 10 of the data belong"));
}

// T read from dtype D is refused unless T holds all values of D.
BOOST_AUTO_TEST_CASE(reading_is_exact_or_refused) {
  const std::string rows[] = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"};
  // Columns: double, float, int64, int32, int16, int8, uint8.
  const std::string allowed[] = {"1000000", "1100000", "1100000", "1100000", "0010000",
                                 "1011000", "1111100", "1111110", "1111101", "0000001"};
  for (size_t i = 0; i < 10; ++i) {
    const int64_t size = element_bytes(*find_dtype(rows[i]));
    const File file(with_length(one(join('"', rows[i], '"'), "[1]", join("[0,", size, "]")),
                                std::string(size, '\1')));
    const SafetensorsFile f(file.path());
    std::string found;
    const auto attempt = [&]<class T>(T) {
      try {
        f.read<T>("t");
        found += '1';
      } catch (const FileError& error) {
        BOOST_TEST(has(error.what(), join("tensor 't': ", rows[i], " cannot be read as ")));
        found += '0';
      }
    };
    attempt(double{}), attempt(float{}), attempt(int64_t{}), attempt(int32_t{}), attempt(int16_t{}),
        attempt(int8_t{}), attempt(uint8_t{});
    BOOST_TEST(found == allowed[i], rows[i]);
  }
}

template <class S>
std::string raw(const std::vector<S>& values) {
  std::string out(values.size() * sizeof(S), '\0');
  if (!out.empty()) {
    std::memcpy(out.data(), values.data(), out.size());
  }
  return out;
}

// read<T>(t)[i] = t[i], at the ends of each dtype
template <class T, class S>
void check_values(const char* dtype, const std::vector<S>& values) {
  const std::string data = raw(values);
  const File file(with_length(
      one(join('"', dtype, '"'), join('[', values.size(), ']'), join("[0,", data.size(), ']')),
      data));
  const auto got = SafetensorsFile(file.path()).read<T>("t");
  BOOST_REQUIRE(got.size() == values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    BOOST_TEST(got[i] == static_cast<T>(values[i]));
    BOOST_TEST(static_cast<S>(got[i]) == values[i]);
  }
}

BOOST_AUTO_TEST_CASE(values_at_the_ends) {
  const auto ends = []<class S>(S) {
    return std::vector<S>{std::numeric_limits<S>::lowest(), std::numeric_limits<S>::max(),
                          std::numeric_limits<S>::min(), S{3}};
  };
  check_values<double>("F64", ends(double{}));
  check_values<double>("F32", ends(float{}));
  check_values<float>("F32", ends(float{}));
  check_values<int64_t>("I64", ends(int64_t{}));
  check_values<int64_t>("I32", ends(int32_t{}));
  check_values<double>("I32", ends(int32_t{}));
  check_values<float>("I16", ends(int16_t{}));
  check_values<int32_t>("I8", ends(int8_t{}));
  check_values<int16_t>("U8", ends(uint8_t{}));
  check_values<uint8_t>("BOOL", std::vector<uint8_t>{0, 1, 1});
}

// bf16 p has the bits of the float p 2^16
BOOST_AUTO_TEST_CASE(small_floats_in_many_pieces) {
  std::vector<uint16_t> patterns;
  for (int i = 0; i < 300000; ++i) {
    patterns.push_back(static_cast<uint16_t>(i * 40503u >> 3));
  }
  const std::string data = raw(patterns);
  const File file(with_length(one("\"BF16\"", "[300000]", join("[0,", data.size(), ']')), data));
  const SafetensorsFile f(file.path());
  const auto all = f.read<float>("t");
  const auto part = f.read<float>("t", 131071, 168929);
  for (size_t i = 0; i < patterns.size(); ++i) {
    const auto expected = std::bit_cast<float>(uint32_t{patterns[i]} << 16);
    if (!std::isnan(expected)) {
      BOOST_REQUIRE_EQUAL(all[i], expected);
      if (i >= 131071) {
        BOOST_REQUIRE_EQUAL(part[i - 131071], expected);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(truth_values_are_0_or_1) {
  const File file(with_length(one("\"BOOL\"", "[4]", "[0,4]"), "\0\1\2\0"s));
  const SafetensorsFile f(file.path());
  BOOST_TEST(has(message<FileError>([&] { f.read<uint8_t>("t"); }),
                 "tensor 't': element 2 of BOOL is 2; allowed are 0 and 1"));
  BOOST_TEST(has(message<FileError>([&] { f.read<uint8_t>("t", 2, 1); }), "element 2 of BOOL"));
  BOOST_TEST((f.read<uint8_t>("t", 0, 2) == std::vector<uint8_t>{0, 1}));
}

BOOST_AUTO_TEST_CASE(parts_outside_of_a_tensor) {
  const File file(golden);
  const SafetensorsFile f(file.path());
  char to[64];
  const int64_t big = std::numeric_limits<int64_t>::max();
  for (const auto& part : {std::pair<int64_t, int64_t>{-1, 1},
                           {0, 9},
                           {8, 1},
                           {9, 0},
                           {0, -1},
                           {1, big},
                           {big, big}}) {
    const int64_t first = part.first;
    const int64_t count = part.second;
    BOOST_TEST(has(message<InputError>([&] { f.read_bytes("b", first, count, to); }),
                   join("tensor 'b': ", count, " bytes from byte ", first,
                        " on are asked for; it "
                        "has 8")));
    BOOST_CHECK_THROW(f.read<float>("b", first, count), InputError);
  }
  BOOST_CHECK_NO_THROW(f.read_bytes("b", 8, 0, to));
  BOOST_TEST(f.read<float>("b", 2, 0).empty());
  BOOST_CHECK_THROW(f.read<float>("b", 1, 2), InputError);
}

BOOST_AUTO_TEST_CASE(a_file_that_shrinks_is_an_error) {
  const File file(golden);
  const SafetensorsFile f(file.path());
  fs::resize_file(file.path(), golden.size() - 1);
  BOOST_TEST(has(message<FileError>([&] { f.read<float>("b"); }), "has become shorter"));
  BOOST_TEST((f.read<int64_t>("a") == std::vector<int64_t>{-3}));
}

BOOST_AUTO_TEST_CASE(what_is_no_file) {
  const File file("");
  BOOST_TEST(has(message<FileError>([] { SafetensorsFile("no/such\nfile"); }),
                 "no/such\\nfile: cannot open"));
  BOOST_TEST(has(message<FileError>([] { SafetensorsFile("/"); }), "not a regular file"));
  BOOST_TEST(has(message<FileError>([] { SafetensorsFile("/dev/zero"); }), "not a regular file"));
  BOOST_TEST(has(message<FileError>([] { SafetensorsFile("a\0b"s); }), "zero byte"));
  // A pipe without a writer is refused at once.
  const std::string pipe = (file.directory.path / "pipe").string();
  BOOST_REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  BOOST_TEST(has(message<FileError>([&] { SafetensorsFile{pipe}; }), "not a regular file"));
  // Of a tensor of 2^42 bytes, in a file that has them as a hole, a part can be read.
  const std::string header = one("\"U8\"", "[4398046511104]", "[0,4398046511104]");
  std::ofstream(file.path(), std::ios::binary) << with_length(header, "");
  std::error_code failed;
  fs::resize_file(file.path(), 8 + header.size() + (uintmax_t{1} << 42), failed);
  if (!failed) {
    const SafetensorsFile f(file.path());
    BOOST_TEST((f.read<double>("t", (int64_t{1} << 42) - 2, 2) == std::vector<double>{0, 0}));
  }
}

// Readers share one descriptor and no position.
BOOST_AUTO_TEST_CASE(many_threads_read_at_once) {
  std::vector<int32_t> values(200000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int32_t>(i * 2654435761u);
  }
  const File file(with_length(one("\"I32\"", "[200000]", "[0,800000]"), raw(values)));
  const SafetensorsFile f(file.path());
  std::vector<int> wrong(4, 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const int64_t first = int64_t{t} * 50000;
      const auto part = f.read<int32_t>("t", first, 50000);
      wrong[t] = std::equal(part.begin(), part.end(), values.begin() + first) ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  BOOST_TEST((wrong == std::vector<int>(4, 0)));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
