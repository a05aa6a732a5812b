#include "reference/base/json_file.h"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <climits>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "reference/base/error.h"
#include "reference/base/test_files.h"

namespace bdlm {
BOOST_AUTO_TEST_SUITE(json_file)

namespace {

using testing::has, testing::message;

std::string parse_message(const std::string& text, const JsonLimits& limits = {}) {
  return message<FileError>([&] { parse_json(text, "f.json", limits); });
}

BOOST_AUTO_TEST_CASE(valid_documents_are_what_the_library_reads) {
  for (const std::string text :
       {R"({"a":{"b":[1,-2,3.5,"x",null,true,{}]},"c":"\u00e9\n"})", "[]", "3", "\"s\"", "null",
        " [ [ ] , { } ] ", "18446744073709551615", "-9223372036854775808", "1e308"}) {
    BOOST_TEST((parse_json(text, "f") == Json::parse(text)));
  }
}

BOOST_AUTO_TEST_CASE(malformed_text_names_file_and_place) {
  const std::string text = parse_message("{\"a\": 1,\n \"b\": }");
  BOOST_TEST(has(text, "f.json: not valid JSON"));
  BOOST_TEST(has(text, "line 2, column 7"));
  for (const std::string bad :
       {"{\"a\": 1", "[1, 2",    "\"abc",    "tru",      "[1,]",       "{\"a\" 1}",
        "{a: 1}",    "[1] 2",    "{} {}",    "[NaN]",    "[Infinity]", "[-Infinity]",
        "nan",       "[01]",     "[.5]",     "[+1]",     "'a'",        "[1] // c",
        "\"\\x\"",   "\"a\nb\"", "\"\xff\"", "\"\xc3\"", "1e999",      "[-1e400]"}) {
    BOOST_TEST_CONTEXT(bad) {
      const std::string reason = parse_message(bad);
      BOOST_TEST(has(reason, "f.json: not valid JSON"));
      BOOST_TEST((has(reason, "line ") || has(reason, "byte ")));
    }
  }
  BOOST_TEST(has(parse_message(""), "empty"));
  BOOST_TEST(has(parse_message(std::string("1\0", 2)), "not valid JSON: zero byte at byte 1"));
  BOOST_TEST(has(parse_message(std::string("[1]\0 garbage", 12)), "not valid JSON"));
}

// Every proper prefix of a document is an error, never a smaller document.
BOOST_AUTO_TEST_CASE(every_truncation_is_an_error) {
  const std::string text = R"({"a":{"b":[1,2.5e1,"x\u00e9"]},"c":false,"d":null})";
  BOOST_CHECK_NO_THROW(parse_json(text, "f"));
  for (size_t n = 0; n < text.size(); ++n) {
    BOOST_TEST_CONTEXT(n) {
      BOOST_CHECK_THROW(parse_json(text.substr(0, n), "f"), FileError);
    }
  }
}

BOOST_AUTO_TEST_CASE(duplicate_keys_are_named_with_their_path) {
  BOOST_TEST(has(parse_message(R"({"a":1,"b":2,"a":3})"), "key 'a' occurs twice"));
  BOOST_TEST(
      has(parse_message(R"({"x":{"y":[0,{"a":1,"a":1}]}})"), "key 'x.y.[1].a' occurs twice"));
  BOOST_CHECK_NO_THROW(parse_json(R"([{"a":1},{"a":2}])", "f"));
  BOOST_CHECK_NO_THROW(parse_json(R"({"a":{"a":{"a":1}}})", "f"));
  BOOST_TEST(has(parse_message("{\"\\n\":1,\"\\n\":1}"), "key '\\n' occurs twice"));
}

BOOST_AUTO_TEST_CASE(depth_and_size_are_bounded) {
  const auto nested = [](int64_t n) { return std::string(n, '[') + std::string(n, ']'); };
  BOOST_CHECK_NO_THROW(parse_json(nested(64), "f"));
  BOOST_TEST(has(parse_message(nested(65)), "nested deeper than 64"));
  BOOST_TEST(has(parse_message(std::string(3000000, '[')), "nested deeper than 64"));
  std::string objects;
  for (int i = 0; i < 100000; ++i) {
    objects += "{\"a\":";
  }
  BOOST_TEST(has(parse_message(objects), "nested deeper than 64"));
  BOOST_CHECK_NO_THROW(parse_json("3", "f", {1, 0}));
  BOOST_TEST(has(parse_message("[]", {100, 0}), "nested deeper than 0"));
  BOOST_CHECK_NO_THROW(parse_json("[10]", "f", {4, 64}));
  BOOST_TEST(has(parse_message("[100]", {4, 64}), "larger than 4 bytes"));
}

// Time grows with the size of the text: 10^5 short keys below one of 10^7 bytes take no 10^12
// steps.
BOOST_AUTO_TEST_CASE(short_keys_below_a_long_one) {
  std::string text = "{\"" + std::string(10'000'000, 'k') + "\":{";
  for (int i = 0; i < 100000; ++i) {
    text += join(i == 0 ? "\"" : ",\"", i, "\":0");
  }
  BOOST_TEST(parse_json(text + "}}", "f").size() == 1u);
  BOOST_TEST(has(parse_message(text + ",\"7\":0}}"), "occurs twice"));
}

BOOST_AUTO_TEST_CASE(files) {
  const auto path = std::filesystem::temp_directory_path() / join("bdlm_json_", getpid(), ".json");
  std::ofstream(path) << R"({"a":[1,2]})";
  BOOST_TEST((read_json_file(path) == Json::parse(R"({"a":[1,2]})")));
  BOOST_TEST(has(message<FileError>([&] {
                   read_json_file(path, {5, 64});
                 }),
                 "larger than 5 bytes"));
  std::ofstream(path) << "[1";
  BOOST_TEST(has(message<FileError>([&] { read_json_file(path); }), path.string() + ": not valid"));
  std::filesystem::remove(path);
  BOOST_TEST(has(message<FileError>([&] { read_json_file(path); }), "No such file"));
  BOOST_TEST(has(message<FileError>([&] { read_json_file("/"); }), "Is a directory"));
  BOOST_TEST(has(message<FileError>([&] { read_json_file("/dev/null"); }), "empty"));
  // An endless file is read no further than the limit.
  BOOST_TEST(has(message<FileError>([&] {
                   read_json_file("/dev/zero", {1000, 64});
                 }),
                 "larger than"));
  BOOST_TEST(
      has(message<FileError>([&] { read_json_file("no\nline"); }), "no\\nline: cannot open"));
}

BOOST_AUTO_TEST_CASE(getters_return_values) {
  const Json doc = parse_json(R"({"a":{"b":7,"n":null},"d":2.5,"i":3,"t":true,"s":"x","l":[1,2],)"
                              R"("big":9223372036854775807})",
                              "f");
  const JsonView v = view(doc, "f.json");
  BOOST_TEST(get_int(v, "a.b", 7, 7) == 7);
  BOOST_TEST(get_int(get_object(v, "a"), "b", 0, 10) == 7);
  BOOST_TEST(get_int(v, "big", 0, INT64_MAX) == INT64_MAX);
  BOOST_TEST(get_double(v, "d", 0, 10) == 2.5);
  BOOST_TEST(get_double(v, "i", 0, 10) == 3);
  BOOST_TEST(get_bool(v, "t"));
  BOOST_TEST(get_string(v, "s") == "x");
  const auto list = get_array(v, "l");
  BOOST_TEST(list.size() == 2u);
  BOOST_TEST(as_int(list[1], 0, 9) == 2);
  BOOST_TEST(get_int_or(v, "a.n", 0, 9, 5) == 5);
  BOOST_TEST(get_int_or(v, "a.x.y", 0, 9, 6) == 6);
  BOOST_TEST(get_int_or(v, "i", 0, 9, 6) == 3);
  BOOST_TEST(get_double_or(v, "x", 0, 9, 1.5) == 1.5);
  BOOST_TEST(!get_bool_or(v, "x", false));
  BOOST_TEST(get_string_or(v, "x", "y") == "y");
  BOOST_TEST(members(v).size() == 7u);
}

BOOST_AUTO_TEST_CASE(getters_name_file_path_value_and_what_is_allowed) {
  const Json doc = parse_json(
      R"({"a":{"b":-7,"f":3.0},"l":[1,"x"],"u":18446744073709551615,"s":"a\nb","d":1e300})", "f");
  const JsonView v = view(doc, "f.json");
  const auto text = [&](const auto& f) { return message<InputError>(f); };
  BOOST_TEST(text([&] { get_int(v, "a.b", 0, 10); }) ==
             "f.json: key 'a.b' is -7; allowed is an integer from 0 to 10");
  BOOST_TEST(text([&] { get_int(v, "a.f", 0, 10); }) ==
             "f.json: key 'a.f' is 3.0; allowed is an integer from 0 to 10");
  BOOST_TEST(has(text([&] { get_int(v, "u", INT64_MIN, INT64_MAX); }), "is 18446744073709551615;"));
  BOOST_TEST(has(text([&] { get_int(v, "s", 0, 1); }), "is \"a\\nb\"; allowed"));
  BOOST_TEST(text([&] { get_int(v, "a.z", 0, 10); }) == "f.json: key 'a.z' is missing");
  BOOST_TEST(text([&] { get_int(get_object(v, "a"), "z.w", 0, 1); }) ==
             "f.json: key 'a.z.w' is missing");
  BOOST_TEST(has(text([&] { get_int(v, "a.b.c", 0, 1); }), "'a.b' is -7; allowed is an object"));
  BOOST_TEST(has(text([&] { get_int_or(v, "a.b", 0, 1, 1); }), "is -7"));
  BOOST_TEST(has(text([&] { get_double(v, "d", 0, 1e10); }), "allowed is a number from 0.0 to 1"));
  BOOST_TEST(has(text([&] { get_double(v, "s", 0, 1); }), "a number"));
  BOOST_TEST(
      has(text([&] { get_bool(v, "a"); }), "'a' is an object of 2; allowed is true or false"));
  BOOST_TEST(has(text([&] { get_string(v, "l"); }), "'l' is an array of 2; allowed is a string"));
  BOOST_TEST(has(text([&] { get_array(v, "a"); }), "allowed is an array"));
  BOOST_TEST(has(text([&] { as_int(get_array(v, "l")[1], 0, 1); }), "key 'l[1]' is \"x\""));
  BOOST_TEST(has(text([&] { get_object(v, "l"); }), "allowed is an object"));
  BOOST_TEST(has(text([&] {
                   reject_unknown_keys(get_object(v, "a"), {"b", "c"});
                 }),
                 "key 'a.f' is unknown; known are b, c"));
  BOOST_CHECK_NO_THROW(reject_unknown_keys(get_object(v, "a"), {"b", "c", "f"}));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

}  // namespace bdlm
